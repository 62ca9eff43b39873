// `strobe capture`: one capture without Kubernetes.
#pragma once
#include "cli/capture/capture_flags.h"

namespace strobe::cli {

// Returns the exit code: kExitOk when enough workers have a trace in the logdir.
int RunCapture(const CaptureFlags& flags);

}  // namespace strobe::cli
