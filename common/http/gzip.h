// Compresses an answer's body.
#pragma once
#include <string>

namespace strobe::http {

// Bodies beyond this are not compressed: zlib counts their bytes in 32 bits.
inline constexpr std::size_t kMaxGzipBytes = std::size_t{1} << 30;

// The text as one gzip member, at zlib's fastest level, because the client waits for it. The text
// has at most kMaxGzipBytes bytes.
std::string Gzip(const std::string& text);

}  // namespace strobe::http
