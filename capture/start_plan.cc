#include "capture/start_plan.h"

#include <algorithm>

#include "common/base/duration.h"
#include "common/base/strings.h"
#include "common/protocol/capture_defaults.h"

namespace strobe::capture {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Nanos kLeadMargin = milliseconds(50);
// No worker gets less time to answer its plan. A sidecar that has used up its share of the CPU
// stands still for up to 100 ms.
constexpr Nanos kMinArmTime = milliseconds(150);
// What calling off needs besides the way to the farthest worker.
constexpr Nanos kCallOffMargin = milliseconds(150);

Nanos SourceLead(std::span<const ClockReading> workers) {
  Nanos longest{0};
  for (const ClockReading& worker : workers)
    longest = std::max(longest, worker.lead > Nanos{0} ? worker.lead : kProfilerSendAhead);
  return longest + kLeadMargin;
}

// Arming is one round trip to all workers at once, over connections that exist by now: four times
// the slowest preflight is ample. Sending to many workers takes time too, so each adds a little.
Nanos ArmBudget(std::span<const ClockReading> workers) {
  Nanos slowest{0};
  for (const ClockReading& worker : workers) slowest = std::max(slowest, worker.round_trip);
  return std::clamp<Nanos>(4 * slowest + workers.size() * microseconds(500), milliseconds(50),
                           seconds(5));
}

Nanos DefaultGuard(std::span<const ClockReading> workers) {
  Nanos guard = kMinGuard;
  for (const ClockReading& worker : workers) {
    guard = std::max({guard, 4 * worker.wake_lateness, 2 * worker.capture_lateness});
  }
  return std::min(guard, kMaxDefaultGuard);
}

}  // namespace

Nanos CallOffLead(std::span<const ClockReading> workers) {
  // A message takes at most as long as a round trip, and a clock's error is half of one.
  Nanos longest{0};
  for (const ClockReading& worker : workers)
    longest = std::max(longest, worker.error.value_or(Nanos{0}));
  return kCallOffMargin + 2 * longest;
}

absl::StatusOr<StartPlan> PlanStart(const Spec& spec, WallTime now,
                                    std::span<const ClockReading> workers) {
  if (workers.empty()) return absl::InvalidArgumentError("no worker is ready");
  StartPlan plan{.guard = spec.guard.value_or(DefaultGuard(workers))};
  for (const ClockReading& worker : workers) {
    if (!worker.error) {
      if (spec.max_skew) {
        return absl::FailedPreconditionError(
            StrCat(worker.worker,
                   ": its clock cannot be measured, so maxSkew cannot be guaranteed; omit maxSkew "
                   "or capture through its sidecar"));
      }
      continue;
    }
    // Two workers may be wrong in opposite directions, hence twice the error.
    const Nanos bound = 2 * *worker.error;
    if (spec.max_skew && bound > *spec.max_skew) {
      return absl::FailedPreconditionError(
          StrCat(worker.worker, ": its clock is known only to +-", FormatDuration(*worker.error),
                 ", too uncertain for maxSkew ", FormatDuration(*spec.max_skew)));
    }
    plan.skew_bound = std::max(plan.skew_bound, bound);
  }
  // Sources that start quickly must not shorten the time for arming.
  const Nanos arm = ArmBudget(workers);
  const Nanos ahead =
      std::max(SourceLead(workers) + arm, CallOffLead(workers) + std::max(arm, kMinArmTime));
  const WallTime soonest = now + plan.guard + ahead;
  plan.instant = std::max(soonest, spec.at.value_or(now + spec.delay.value_or(Nanos{0})));
  return plan;
}

Nanos CollectBudget(Nanos duration) {
  // Enough for a trace of 2 GiB at 20 MB/s, and for a store that is throttled for a while.
  return std::max<Nanos>(std::chrono::minutes(3), 2 * duration);
}

}  // namespace strobe::capture
