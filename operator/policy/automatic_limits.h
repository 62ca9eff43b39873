// Bounds that ProfilePolicies set for automatic captures: what all runs that a namespace's
// ProfileSchedules and ProfileTriggers start may cost together, for each job. Pure.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "operator/policy/capture_budget.h"

namespace strobe::policy {

// The reason of a run that such a bound refuses. It appears in statuses.
inline constexpr char kPolicyBudget[] = "PolicyBudget";

struct AutomaticLimits {
  CaptureBudget budget{};               // For each job.
  std::optional<int> max_concurrent{};  // Captures under way at once, for each job.
  // What is kept of each series: the finished runs of a schedule, or of a trigger for one job.
  std::optional<std::size_t> keep_runs{};
  std::optional<Nanos> keep_for{};

  // Whether existing runs matter for the decision to start another one.
  bool bounds_starts() const { return budget.any() || max_concurrent; }
};

// All runs of schedules and triggers whose targets name the same job.
struct JobRuns {
  std::string job{};  // See TargetText.
  std::vector<kube::CreatedRun> runs{};
};

// Why a capture that records `duration`, with what it looks back, must not start now: names the
// field, the job, what was used and when it is free again. None if it may start.
std::optional<std::string> WhyOverLimits(const AutomaticLimits& limits, const JobRuns& job,
                                         Nanos duration, WallTime now);

}  // namespace strobe::policy
