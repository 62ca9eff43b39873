// gRPC's status in ours.
#pragma once
#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "operator/core/worker_words.h"

namespace strobe {

// The codes are the same numbers on purpose. gRPC passes on any bytes as a status's message.
inline absl::Status FromGrpc(const grpc::Status& status) {
  return BoundError(
      absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message()));
}

}  // namespace strobe
