// The plan that one worker is sent. Pure.
#pragma once
#include "capture/attempt_result.h"
#include "capture/capture_spec.h"
#include "common/base/clock.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::capture {

// Writes the attempt's instant and `deadline`, both on the operator's clock, on the clock of
// `worker`. `attempt.plan` must be set, and the worker's offset measured. `framework`: a profiler
// server answers in the worker's trainer.
v1::CapturePlan MakePlan(const CaptureSpec& spec, const AttemptResult& attempt, WallTime deadline,
                         const WorkerResult& worker, bool framework);

}  // namespace strobe::capture
