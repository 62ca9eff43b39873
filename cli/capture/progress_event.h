// The progress of `strobe capture` for programs: one JSON object per line. Pure.
#pragma once
#include <string>

#include "capture/attempt_progress.h"

namespace strobe::cli {

// {"attempt":1,"phase":"delay","workers":2,"armed":2,"ended":0}, and "waitsFor" while preflight
// waits for workers. The phases are those of Name(Phase).
std::string ProgressEvent(const capture::AttemptProgress& progress, int attempt);

// {"attempt":1,"phase":"retry","message":"..."}: the attempt failed, and another one follows.
std::string RetryEvent(int attempt, const std::string& message);

}  // namespace strobe::cli
