// The same step on all workers: who began first, who last, how long each took.
#pragma once
#include <string>

#include "absl/status/statusor.h"
#include "viewer/loaded_run.h"

namespace strobe::viewer {

// JSON {steps}: in the order of their begins, each with the begin and end of every worker that ran
// it and the spread of both. Steps of several workers are the same when name and number are. Times
// are picoseconds on the run's clock. All traces are read for the first answer, which the run
// keeps. DataLoss when a trace is damaged.
absl::StatusOr<std::string> CompareSteps(const LoadedRun& run);

}  // namespace strobe::viewer
