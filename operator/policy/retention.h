// Which finished runs of a ProfileSchedule or ProfileTrigger are removed: what the object itself
// asks for, and the bounds of policies. Pure.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "operator/base/run_creator.h"
#include "operator/policy/policy.h"

namespace strobe::policy {

// What the policies of a namespace say about its series: the runs of a schedule, or of a trigger
// and job. If policies differ, the strictest value holds.
struct SeriesBounds {
  std::optional<std::size_t> runs{};  // How many finished ones are kept.
  std::optional<Nanos> age{};         // How long after their end.
  bool counted = false;               // Budgets count runs, which are therefore kept for a day.

  bool operator==(const SeriesBounds&) const = default;
};
SeriesBounds BoundsOfSeries(const std::vector<ProfilePolicy>& policies,
                            const std::map<std::string, std::string>& labels);

struct Retention {
  std::vector<kube::CreatedRun> remove{};
  // When that may change by itself; none if there are no finished runs.
  std::optional<Nanos> look_again{};
};

// `runs` are all runs of the creator, the newest first. Without `bounds`, which are not known then,
// nothing is removed.
Retention DecideRetention(const kube::RunCreator& creator,
                          const std::vector<kube::CreatedRun>& runs,
                          const std::optional<SeriesBounds>& bounds, WallTime now);

}  // namespace strobe::policy
