// A run whose workers are moved so that a step, or a collective, lies at the same time on all of
// them. Where clocks are not measured, or are wrong, nothing else tells what belongs together.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "viewer/run/loaded_run.h"

namespace strobe::viewer {

// `by`: "step" for the begin of the first step that most workers recorded, "step:5" for that of
// step 5, and "collective" for the end of the first collective that most workers made in that first
// step, or at all if there are no steps: all members end it together. A worker without it begins to
// record when the others do, and a warning says so. The result shares the run's traces, has its
// version, and is kept by it. InvalidArgument for another text, NotFound if no worker has it.
absl::StatusOr<std::shared_ptr<const LoadedRun>> AlignedRun(
    const LoadedRun& run, const std::string& by, const std::function<bool()>& is_gone = nullptr);

}  // namespace strobe::viewer
