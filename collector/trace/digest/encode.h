// Encodes digests as strobe.v1.Digest, without the protobuf library, and reads them again.
#pragma once
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "collector/trace/digest/digest.h"

namespace strobe::digest {

// At most `max_bytes` long, which must be at least 64 KiB. If the digest does not fit, the last
// steps and collectives and the operations with the least self time are left out, from whichever of
// these lists is largest, and counted in its cuts. Names and communicators that nothing refers to
// are left out.
std::string EncodeDigest(const Digest& digest, std::size_t max_bytes = kMaxDigestBytes);

// The bytes are not trusted. InvalidArgument if they are no digest, are longer than
// kMaxDigestBytes, or refer to something that is not there. Texts become valid UTF-8.
absl::StatusOr<Digest> DecodeDigest(std::string_view bytes);

}  // namespace strobe::digest
