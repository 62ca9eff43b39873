// Small files as text: configurations, tokens, certificates.
#pragma once
#include <string>

#include "absl/status/statusor.h"

namespace strobe {

// NotFound, with the path, when it cannot be read.
absl::StatusOr<std::string> ReadTextFile(const std::string& path);

}  // namespace strobe
