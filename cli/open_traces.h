// The traces that a command reads: one file, a run, or the newest run of a logdir.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/convert/align.h"
#include "strobe/v1/manifest.pb.h"

namespace strobe {

// Sorted by worker. InvalidArgument or NotFound say what to give instead.
absl::StatusOr<std::vector<convert::OpenTrace>> OpenTraces(const std::string& place,
                                                           const std::string& storage_config);

// The manifest of the run that OpenTraces would open; none of a single file, or of a run that
// another tool wrote.
std::optional<v1::Manifest> FindManifest(const std::string& place,
                                         const std::string& storage_config);

}  // namespace strobe
