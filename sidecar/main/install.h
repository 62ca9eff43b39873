// Puts what the trainer loads where it looks for it.
#pragma once
#include <string>

#include "absl/status/status.h"

namespace strobe {

// Copies <program>/../lib/libstrobe_agent.so to <dir>/lib and, where there is one,
// <program>/../python to <dir>/python. A trainer that already has a file open keeps the old one.
absl::Status InstallAgent(const std::string& dir);

}  // namespace strobe
