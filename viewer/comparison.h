// The same step on all workers: who began first, who last, how long each took.
#pragma once
#include <string>

#include "absl/status/statusor.h"
#include "viewer/loaded_run.h"

namespace strobe::viewer {

// JSON: the steps by number, each with its workers' begins and ends on the run's clock. DataLoss
// when a trace is damaged.
absl::StatusOr<std::string> CompareSteps(const LoadedRun& run);

}  // namespace strobe::viewer
