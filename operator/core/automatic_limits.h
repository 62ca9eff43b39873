// Bounds of ProfilePolicies for captures that start themselves: what the runs that all
// ProfileSchedules and ProfileTriggers of a namespace start may cost together, for each job. Pure.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "operator/core/capture_budget.h"

namespace strobe {

// The reason of a run that such a bound refuses. It is part of statuses.
inline constexpr char kPolicyBudget[] = "PolicyBudget";

struct AutomaticLimits {
  CaptureBudget budget{};               // For each job.
  std::optional<int> max_concurrent{};  // The same; captures under way at once.
  // What is kept of each series. A series is the finished runs of a schedule, or of a trigger and
  // job.
  std::optional<std::size_t> keep_runs{};
  std::optional<Nanos> keep_for{};

  // Whether it depends on the runs that exist if another one may start.
  bool bounds_starts() const { return budget.any() || max_concurrent; }
};

// All runs of schedules and triggers whose targets name the same job.
struct JobRuns {
  std::string job{};  // See TargetText.
  std::vector<CreatedRun> runs{};
};

// Why a capture of `duration` must not start now: names the field, the job, what was used and when
// it is free again. None if it may start.
std::optional<std::string> WhyOverLimits(const AutomaticLimits& limits, const JobRuns& job,
                                         Nanos duration, WallTime now);

}  // namespace strobe
