// A plain GET, for programs that ask their own server whether it answers.
#pragma once
#include <string>

#include "absl/status/statusor.h"
#include "common/base/clock.h"

namespace strobe {

// The status code with which the server on this port of 127.0.0.1 answers. Unavailable if nobody
// listens or the answer is not HTTP, DeadlineExceeded.
absl::StatusOr<int> GetFromLocalhost(int port, const std::string& path, Nanos timeout);

}  // namespace strobe
