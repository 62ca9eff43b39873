// Copies the agent to the directory that the trainer loads it from.
#pragma once
#include <string>

#include "absl/status/status.h"

namespace strobe {

// Copies <program>/../lib to <dir>/lib and, if it exists, <program>/../python to <dir>/python. Also
// creates <dir>/agent, which every user may write to. A trainer that has loaded a file
// already keeps the old one.
absl::Status InstallAgent(const std::string& dir);

}  // namespace strobe
