// gRPC's status and deadlines in ours.
#pragma once
#include <grpcpp/support/status.h>

#include <chrono>

#include "absl/status/status.h"
#include "collector/base/clock.h"

namespace strobe {

// The codes are the same numbers on purpose.
inline absl::Status FromGrpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

inline std::chrono::system_clock::time_point DeadlineIn(Nanos duration) {
  return std::chrono::system_clock::now() +
         std::chrono::duration_cast<std::chrono::system_clock::duration>(duration);
}

}  // namespace strobe
