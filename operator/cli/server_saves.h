// Stock servers that write their traces themselves, and Cloud TPU masters: as
// tf.profiler.experimental.client.trace does it, but honouring the delay and telling the truth per
// worker. Skew and coverage cannot be known, because the traces never pass through here.
#pragma once
#include <string>
#include <vector>

#include "collector/base/clock.h"
#include "operator/core/capture_spec.h"

namespace strobe {

// With a worker list the first target is a master that profiles those workers. Exit code as
// RunCapture's.
int RunServerSaves(const CaptureSpec& spec, const std::vector<Target>& targets,
                   const std::string& worker_list, const Clock& clock);

}  // namespace strobe
