// Captures through stock profiler servers that write their traces themselves, and through Cloud TPU
// masters. This is what tf.profiler.experimental.client.trace does, but with a delay and a result
// for each worker. Skew and coverage are not known, because the traces do not pass through this
// process.
#pragma once
#include <vector>

#include "capture/spec.h"
#include "cli/capture/capture_flags.h"
#include "common/base/clock.h"

namespace strobe::cli {

// Returns the exit code, as RunCapture does. With a --worker-list, the first target is a master
// that profiles the workers in the list. `flags.risks` do not matter for a master, whose workers
// the TPU's runtime profiles. The manifest of --output json is only printed, and has what is known
// here.
int RunServerSaves(const CaptureFlags& flags, const capture::Spec& spec,
                   const std::vector<capture::Target>& targets, const Clock& clock);

}  // namespace strobe::cli
