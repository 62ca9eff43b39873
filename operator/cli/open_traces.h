// The traces that a command reads: one file, a run, or the newest run of a logdir.
#pragma once
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/convert/align.h"

namespace strobe {

// Sorted by worker. InvalidArgument or NotFound say what to give instead.
absl::StatusOr<std::vector<convert::OpenTrace>> OpenTraces(const std::string& place,
                                                           const std::string& storage_config);

}  // namespace strobe
