// Converts gRPC's status to absl's.
#pragma once
#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "capture/answer_limits.h"

namespace strobe {

// Both use the same numbers for codes. The message may be any bytes that the peer sent, so it is
// limited like an answer.
inline absl::Status FromGrpc(const grpc::Status& status) {
  return BoundError(
      absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message()));
}

}  // namespace strobe
