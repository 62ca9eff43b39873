// Memory that CUPTI fills with records.
#pragma once
#include <cstddef>
#include <cstdint>

namespace strobe::agent {

// Small, like XLA's: a small buffer fills and returns sooner, so less is lost when the program is
// killed.
inline constexpr std::size_t kBufferBytes = 128 << 10;
inline constexpr std::size_t kMaxBuffers = 128;  // 16 MiB in all; CUPTI counts what finds no room.

// Null when all are lent. Any thread.
std::uint8_t* LendBuffer();
// False for memory that was not lent here, such as a buffer of another profiler: it must not be
// touched.
bool IsLent(const std::uint8_t* buffer);
// Takes a lent buffer back; does nothing with any other memory.
void ReturnBuffer(std::uint8_t* buffer);
// Does CUPTI, or whoever took it over, still hold a buffer with records?
bool RecordsAreOut();
// The buffers that RecordsAreOut is about, each counted once: after CUPTI has handed everything
// over, they went to somebody else.
std::size_t CountLostBuffers();
// In a forked child: the buffers are the parent's.
void ForgetBuffers();

}  // namespace strobe::agent
