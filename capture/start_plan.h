// Chooses the start of a capture from what preflight measured. Pure.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "capture/spec.h"
#include "capture/step_plan.h"
#include "common/base/clock.h"

namespace strobe::capture {

// What preflight measured of one worker that is ready.
struct ClockReading {
  std::string worker{};
  Nanos offset{};                // Worker clock minus operator clock.
  std::optional<Nanos> error{};  // Half-width of the offset's error interval; none = not measured.
  Nanos round_trip{};            // The whole preflight's.
  Nanos wake_lateness{};         // How late its machine wakes a sleeping thread now.
  Nanos capture_lateness{};      // How late its earlier captures began.
  Nanos lead{};  // How long before the start its source must be told; 0 = not known.
};

struct StartPlan {
  WallTime instant{};  // On the operator's clock.
  Nanos guard{};       // Recorded before and after the window.
  Nanos skew_bound{};  // The error of the clocks alone: two starts may be this far apart.
  // The steps to record, for captures that begin at one. `instant` is then when the first worker is
  // expected to begin the first of them.
  std::optional<StepPlan> steps{};
  std::string no_steps{};  // Why there are none although they were asked for.
};

inline constexpr Nanos kMinGuard = std::chrono::milliseconds(5);
inline constexpr Nanos kMaxDefaultGuard = std::chrono::milliseconds(100);
// How long before the guard begins arming must end, so that calling off still reaches all of these
// workers before they record.
Nanos CallOffLead(std::span<const ClockReading> workers);

// The earliest safe instant, or the later one that `spec` asks for. `now` and `spec.at` are on the
// same clock. FailedPrecondition, naming the worker: a clock is too uncertain for spec.max_skew, so
// the traces could not be aligned as asked. InvalidArgument: `workers` is empty.
absl::StatusOr<StartPlan> PlanStart(const Spec& spec, WallTime now,
                                    std::span<const ClockReading> workers);

// How long collecting and uploading a trace may take after the recording, if the request does not
// say.
Nanos CollectBudget(Nanos duration);

}  // namespace strobe::capture
