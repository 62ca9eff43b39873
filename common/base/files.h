// Reads small files, and tells whether files were written since they were looked at.
#pragma once

#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace strobe {

// NotFound, with the path in the message, if the file cannot be read.
absl::StatusOr<std::string> ReadTextFile(const std::string& path);

// A text that is another one after one of the files was written or replaced, and for other paths.
// An error if one is missing.
absl::StatusOr<std::string> StampOfFiles(std::span<const std::string> paths);

}  // namespace strobe
