// Memory that CUPTI fills with records.
#pragma once
#include <cstddef>
#include <cstdint>

namespace strobe::agent {

// As small as XLA's are not too small for: full ones come back soon, and little is lost of a
// program that is killed.
inline constexpr std::size_t kBufferBytes = 128 << 10;
inline constexpr std::size_t kMostBuffers = 128;  // 16 MiB in all; CUPTI counts what finds no room.

// Null when all are in use. Any thread.
std::uint8_t* BorrowBuffer();
void ReturnBuffer(std::uint8_t* buffer);

}  // namespace strobe::agent
