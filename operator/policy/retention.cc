#include "operator/policy/retention.h"

#include <algorithm>

#include "operator/policy/capture_budget.h"

namespace strobe::policy {
namespace {

// Policies may change, and somebody may set the wall clock, so runs are looked at again this often.
constexpr Nanos kMaxUntilLook = std::chrono::minutes(1), kMinUntilLook = std::chrono::seconds(1);
constexpr Nanos kUntilBoundsAreKnown = std::chrono::seconds(5);

template <typename T>
std::optional<T> Stricter(const std::optional<T>& a, const std::optional<T>& b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

}  // namespace

SeriesBounds BoundsOfSeries(const std::vector<ProfilePolicy>& policies,
                            const std::map<std::string, std::string>& labels) {
  SeriesBounds bounds;
  for (const ProfilePolicy& policy : policies) {
    if (!policy.invalid.empty() || !policy.namespaces.Matches(labels)) continue;
    bounds.runs = Stricter(bounds.runs, policy.automatic.keep_runs);
    bounds.age = Stricter(bounds.age, policy.automatic.keep_for);
    bounds.counted = bounds.counted || policy.automatic.budget.any();
  }
  return bounds;
}

Retention DecideRetention(const kube::RunCreator& creator,
                          const std::vector<kube::CreatedRun>& runs,
                          const std::optional<SeriesBounds>& bounds, WallTime now) {
  Retention retention;
  // What an invalid spec asks for is not known, and runs that are removed do not come back.
  const bool asks = creator.invalid.empty();
  const bool trigger = creator.kind == kube::CreatorKind::kTrigger;
  std::size_t succeeded = 0, others = 0;
  std::map<std::string, std::size_t> in_series;
  for (const kube::CreatedRun& run : runs) {
    if (run.state == kube::RunState::kUnfinished || run.deleting) continue;
    if (!bounds) {
      retention.look_again = kUntilBoundsAreKnown;
      continue;
    }
    const bool good = run.state == kube::RunState::kSucceeded;
    const std::size_t of_kind = good ? ++succeeded : ++others;
    const std::size_t of_series = ++in_series[trigger ? run.job : std::string()];
    const std::optional<Nanos> age = Stricter(asks ? creator.keep_for : std::nullopt, bounds->age);
    const WallTime ended = run.completion.value_or(run.created);
    const bool beyond = (asks && of_kind > (good ? creator.keep_succeeded : creator.keep_failed)) ||
                        (bounds->runs && of_series > *bounds->runs) || (age && ended + *age <= now);
    const Nanos counted = trigger || bounds->counted ? run.created + kBudgetDay - now : Nanos{0};
    if (beyond && counted <= Nanos{0}) {
      retention.remove.push_back(run);
      continue;
    }
    Nanos next = kMaxUntilLook;
    if (counted > Nanos{0}) next = std::min(next, counted);
    if (age && ended + *age > now) next = std::min<Nanos>(next, ended + *age - now);
    retention.look_again =
        std::clamp(next, kMinUntilLook, retention.look_again.value_or(kMaxUntilLook));
  }
  return retention;
}

}  // namespace strobe::policy
