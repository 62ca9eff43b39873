// Chooses the training step at which all workers begin to record, from the pace of their processes.
// Pure.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "capture/spec.h"
#include "common/base/clock.h"

namespace strobe::capture {

// The steps of one loop in one process of a worker, as of preflight.
struct LoopPace {
  std::string loop{};
  bool by_framework = false;  // A framework tells the steps, and not Strobe's annotations.
  std::int64_t number = 0;    // The step that began last.
  WallTime began{};           // When it began, on the operator's clock.
  Nanos period{};             // The median time per step; 0 = not known yet.
  // The time per step of the fastest and of the slowest steps in a row lately; 0 = not known.
  Nanos fastest{}, slowest{};
};

struct WorkerPace {
  std::string worker{};
  std::vector<LoopPace> loops{};
};

inline constexpr Nanos kMaxStepWait = std::chrono::minutes(55);
inline constexpr Nanos kMaxStepsTime = std::chrono::minutes(10);

// When a worker is expected to record its steps, on the operator's clock.
struct ExpectedSteps {
  WallTime begin{}, end{};
};

struct StepPlan {
  std::string loop{};
  std::int64_t first = 0;
  std::uint32_t count = 0;
  std::vector<ExpectedSteps> expected{};  // In the order of the workers.
  WallTime begin{};  // When the first worker is expected to begin the first step.
  WallTime by{};     // When all workers should have ended the last step, at the latest.

  std::int64_t last() const { return first + count - 1; }
};

// `soonest`: no worker may reach the first step before it, so that all can be armed. NotFound: the
// workers tell no steps, or none of the same loop, so that a step means nothing to all of them.
// FailedPrecondition, naming the worker: it is beyond the step that is asked for, or will not reach
// it within kMaxStepWait at its pace, or the steps take longer than `longest`, which is at most
// kMaxStepsTime. A worker that becomes slower is not recorded much longer than `longest` either.
absl::StatusOr<StepPlan> PlanStep(const StepsWanted& wanted, WallTime now, WallTime soonest,
                                  std::span<const WorkerPace> workers,
                                  Nanos longest = kMaxStepsTime);

}  // namespace strobe::capture
