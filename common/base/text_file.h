// Reads small text files: configurations, tokens, certificates.
#pragma once
#include <string>

#include "absl/status/statusor.h"

namespace strobe {

// NotFound, with the path in the message, if the file cannot be read.
absl::StatusOr<std::string> ReadTextFile(const std::string& path);

}  // namespace strobe
