// The complete training steps of a recording, and whether they are those that the plan asks for.
#pragma once
#include <string_view>

#include "absl/status/statusor.h"
#include "collector/trace/analysis/judge.h"
#include "sidecar/capture/ports.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::session {

// Fills report.steps from the trace; needs report.stopped_ns. If the plan counts steps, its window
// becomes the time of the complete ones. DataLoss if the trace is damaged.
absl::Status FillSteps(const Recording& recording, v1::Report& report);

// Adds to `judged`, the judgement of the trace without a window, what report.steps says about the
// plan's steps. Pure.
analysis::Judgement JudgeSteps(const v1::Report& report, analysis::Judgement judged);

}  // namespace strobe::session
