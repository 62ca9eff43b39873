#include "operator/policy/automatic_limits.h"

#include <algorithm>

#include "common/base/strings.h"

namespace strobe::policy {
namespace {

// Returns the field's name as the policy writes it.
std::string FieldOf(std::string reason) {
  reason.front() = static_cast<char>(reason.front() + ('a' - 'A'));
  return StrCat("automatic.", reason);
}

}  // namespace

std::optional<std::string> WhyOverLimits(const AutomaticLimits& limits, const JobRuns& job,
                                         Nanos duration, WallTime now) {
  std::vector<const kube::CreatedRun*> runs, active;
  for (const kube::CreatedRun& run : job.runs) {
    runs.push_back(&run);
    if (run.state == kube::RunState::kUnfinished) active.push_back(&run);
  }
  if (limits.max_concurrent && active.size() >= static_cast<std::size_t>(*limits.max_concurrent)) {
    return StrCat("automatic.maxConcurrent for ", job.job, ": ", active.front()->name,
                  active.size() > 1 ? StrCat(" and ", active.size() - 1, " more are") : " is",
                  " under way; available again when it ends");
  }
  std::sort(runs.begin(), runs.end(), [](const kube::CreatedRun* a, const kube::CreatedRun* b) {
    return a->created > b->created;
  });
  const std::optional<UsedUp> used_up = WhyUsedUp(limits.budget, runs, duration, now);
  if (!used_up) return std::nullopt;
  return StrCat(FieldOf(used_up->refusal.reason), " for ", job.job, ": ", used_up->refusal.message);
}

}  // namespace strobe::policy
