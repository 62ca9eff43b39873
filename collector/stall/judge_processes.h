// Verdicts that need no collective: processes that ended or do not run, and connections that are
// cut. Empty if there is no such sign.
#pragma once
#include <optional>
#include <set>
#include <string_view>

#include "collector/stall/evidence.h"
#include "collector/stall/verdict.h"

namespace strobe::stall {

// `some_wait`: ranks wait in a collective.
std::optional<Verdict> JudgeEnded(const JobEvidence& evidence, bool some_wait);
std::optional<Verdict> JudgeStopped(const JobEvidence& evidence);
// `dark`: ranks without evidence, which may be the other end of a connection.
std::optional<Verdict> JudgeConnections(const JobEvidence& evidence, const std::set<int>& dark);

// Does an exception say that another process was lost, and not what this one did wrong?
bool TellsOfALostPeer(std::string_view exception);

}  // namespace strobe::stall
