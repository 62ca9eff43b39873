// The buffers that CUPTI fills with records.
#pragma once
#include <cstddef>
#include <cstdint>

namespace strobe::agent {

// Small, like XLA's: a small buffer fills and returns sooner, so less is lost when the program is
// killed.
inline constexpr std::size_t kBufferBytes = 128 << 10;
// 16 MiB in total. If all buffers are full, CUPTI drops records and counts them.
inline constexpr std::size_t kMaxBuffers = 128;

// Returns an empty buffer, or null if all are lent. Safe to call from any thread.
std::uint8_t* LendBuffer();
// True if the memory is a lent buffer. Another profiler's buffer must not be touched.
bool IsLent(const std::uint8_t* buffer);
// Takes a lent buffer back. Ignores any other memory.
void ReturnBuffer(std::uint8_t* buffer);
// True if CUPTI, or a profiler that replaced the agent in it, holds a buffer with records.
bool RecordsAreOut();
// Counts the buffers with records that did not come back, each buffer once. Call it after CUPTI has
// returned everything: the rest went to another profiler.
std::size_t CountLostBuffers();
// Forgets all buffers. For a forked child: the buffers belong to the parent.
void ForgetBuffers();

}  // namespace strobe::agent
