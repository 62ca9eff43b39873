// A plain GET, for programs that ask their own server whether it answers.
#pragma once
#include <string>

#include "absl/status/statusor.h"
#include "common/base/clock.h"

namespace strobe::http {

// Returns the status code of the answer from the server on this port of 127.0.0.1. Unavailable if
// nobody listens or the answer is not HTTP; DeadlineExceeded after `timeout`.
absl::StatusOr<int> GetFromLocalhost(int port, const std::string& path, Nanos timeout);

}  // namespace strobe::http
