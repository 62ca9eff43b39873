// gRPC's status in ours.
#pragma once
#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace strobe {

// The codes are the same numbers on purpose.
inline absl::Status FromGrpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

}  // namespace strobe
