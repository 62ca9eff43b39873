// Takes the trace out of a framework's answer, which may have two gigabytes.
#pragma once
#include <grpcpp/support/byte_buffer.h>

#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace strobe::source {

// Returns the field `xspace` of a serialized ProfileResponse, or nothing if the answer has none.
// Empties the answer: each of its slices is freed as soon as it has been copied, so that the trace
// is in memory once and not twice. InvalidArgument if the answer is malformed.
absl::StatusOr<std::optional<std::string>> TakeXSpace(grpc::ByteBuffer& answer);

}  // namespace strobe::source
