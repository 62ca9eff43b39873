// Stock servers that write their traces themselves, and Cloud TPU masters: as
// tf.profiler.experimental.client.trace does it, but honouring the delay and telling the truth per
// worker. Skew and coverage cannot be known, because the traces never pass through here.
#pragma once
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "operator/core/capture_spec.h"

namespace strobe {

// With a worker list the first target is a master that profiles those workers. Exit code as
// RunCapture's. For `host_tracing_on_old_servers` see FrameworkOptions; a master's workers are
// profiled by the TPU's runtime, which is not concerned.
int RunServerSaves(const CaptureSpec& spec, const std::vector<Target>& targets,
                   const std::string& worker_list, bool host_tracing_on_old_servers,
                   const Clock& clock);

}  // namespace strobe
