// When to start, from what preflight measured. Pure.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "operator/core/capture_spec.h"

namespace strobe {

// One worker that is ready to take part.
struct ClockReading {
  std::string worker{};
  Nanos offset{};                // Worker clock minus ours,
  std::optional<Nanos> error{};  // true within +- this; none = could not be measured.
  Nanos round_trip{};
  Nanos wake_lateness{};     // How late its machine wakes sleepers now,
  Nanos capture_lateness{};  // and how late its captures began before.
  Nanos lead{};              // How long before its start a recording has to be told; 0 = not known.
};

struct StartPlan {
  WallTime instant{};  // On our clock.
  Nanos guard{};
  Nanos skew_bound{};  // The clocks alone cannot place two starts closer together than this.
};

inline constexpr Nanos kSmallestGuard = std::chrono::milliseconds(5);
inline constexpr Nanos kLargestDefaultGuard = std::chrono::milliseconds(100);

// Refuses, naming the worker, when a clock is too uncertain for the asked maxSkew: traces that
// cannot be lined up are worse than no traces.
absl::StatusOr<StartPlan> PlanStart(const CaptureSpec& spec, WallTime now,
                                    std::span<const ClockReading> workers);

// How long after the window collecting and writing a trace may take.
Nanos CollectBudget(Nanos duration);

}  // namespace strobe
