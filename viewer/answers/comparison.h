// One step on all workers: who began first, who last, how long each took.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "viewer/run/loaded_run.h"

namespace strobe::viewer {

inline constexpr std::size_t kMaxComparedSteps = 1000;

// The steps of all workers. All traces are read for the first answer, which the run keeps. DataLoss
// when a trace is damaged. `is_gone`, which may be null, is asked between traces: once it is true,
// Cancelled.
absl::StatusOr<ComparedSteps> StepsOf(const LoadedRun& run,
                                      const std::function<bool()>& is_gone = nullptr);

// The step of this number of the loop that takes most of the workers' time; null if there is none.
const ComparedStep* FindStep(const ComparedSteps& steps, std::int64_t number);

// JSON {count, times, steps}. `count` is the number of steps; steps of several workers are the same
// when name and number are. `times` has, of all workers' times for a step, the `medianPs`, `p95Ps`,
// `leastPs` and `mostPs`; it is null without steps. `steps` are in the order of their begins, each
// with the begin and end of every worker that ran it and the spread of both. Of many, those are
// left out that took least time from the first begin to the last end: there are at most
// kMaxComparedSteps, and fewer if many workers ran them. Times are picoseconds on the run's clock.
// Errors and `is_gone`: as StepsOf.
absl::StatusOr<std::string> CompareSteps(const LoadedRun& run,
                                         const std::function<bool()>& is_gone = nullptr);

// JSON {step}: the step of this number as CompareSteps has it, or null. Of several loops, it is
// that of the loop that takes most of the workers' time, whose steps the report compares.
absl::StatusOr<std::string> FindComparedStep(const LoadedRun& run, std::int64_t number,
                                             const std::function<bool()>& is_gone = nullptr);

}  // namespace strobe::viewer
