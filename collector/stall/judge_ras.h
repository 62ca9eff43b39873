// What NCCL's RAS alone tells of a stall, and whether it agrees with a verdict.
#pragma once
#include <vector>

#include "collector/stall/evidence.h"
#include "collector/stall/verdict.h"

namespace strobe::stall {

Verdict JudgeByRas(const JobEvidence& evidence);

// Has the rank launched less than others of its group, also by RAS's counts? `blocked_on` is what
// it has not launched.
bool RasAgrees(const std::vector<RasReport>& reports, int rank, const Collective& blocked_on);

}  // namespace strobe::stall
