// What the runs of a trigger tell together about jobs that stood still. Pure.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "operator/trigger/trigger.h"

namespace strobe::trigger {

// The verdict of the newest run that found its job standing still, with what it has in common with
// the stalls of the job before it. `runs` are sorted, the newest first. `former` stays if there is
// none, because runs are deleted and the verdict on a job that was restarted is still of use; but
// not if its own run has withdrawn it.
std::optional<LastStall> LastStallOf(const std::vector<TriggerRun>& runs,
                                     const std::optional<LastStall>& former);

// "rank 9 on node-3 in the last 3 stalls"; empty unless a rank or node is named twice in a row.
// `stalls` are of one job, the newest first.
std::string RepeatedCulprit(const std::vector<const TriggerRun*>& stalls);

}  // namespace strobe::trigger
