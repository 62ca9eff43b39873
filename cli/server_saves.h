// Captures through stock profiler servers that write their traces themselves, and through Cloud TPU
// masters. This is what tf.profiler.experimental.client.trace does, but with a delay and a result
// for each worker. Skew and coverage are not known, because the traces do not pass through this
// process.
#pragma once
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "operator/core/capture_spec.h"
#include "sidecar/source/server_risks.h"

namespace strobe {

// Returns the exit code, as RunCapture does. If `worker_list` is not empty, the first target is a
// master that profiles the workers in the list. `risks` do not matter for a master, whose workers
// the TPU's runtime profiles.
int RunServerSaves(const CaptureSpec& spec, const std::vector<Target>& targets,
                   const std::string& worker_list, const ServerRisks& risks, const Clock& clock);

}  // namespace strobe
