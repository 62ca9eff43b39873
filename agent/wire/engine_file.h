// The file in which a process of an inference server tells the iterations of its engine, and the
// queue of its scheduler: strobe/_inproc/serving/marks.py of the Python package writes it, each
// word as a whole, whether or not a capture runs. Readers copy it.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace strobe::wire {

// An iteration: a batch of requests that the model ran. Times are those of CLOCK_MONOTONIC.
struct EngineMark {
  std::int64_t number;
  std::uint64_t began_ns;
  std::uint64_t ended_ns;  // 0 until it has ended.
  std::uint64_t requests, tokens;
};
inline constexpr std::size_t kEngineMarks = 256;

struct EngineFile {
  std::uint64_t magic;    // kEngineMagic
  std::uint64_t begun;    // The number of iterations that began.
  std::uint64_t dummies;  // Batches without requests, by which a rank only keeps up with others.
  // The scheduler's requests when it had planned an iteration, and when that was; 0 if the process
  // has none.
  std::uint64_t running, waiting, queue_told_ns;
  std::uint64_t worked_ns;  // When it planned an iteration with tokens.
  std::uint64_t busy_ns;    // Since when it has had requests; 0 if it has none.
  // The mark of the n-th iteration is at index n % kEngineMarks, counted from 0.
  std::array<EngineMark, kEngineMarks> marks;
};
inline constexpr std::uint64_t kEngineMagic = 0x314545'424f525453ull;  // "STROBEE1" in memory.
static_assert(sizeof(EngineFile) == 10304);

// Calls `visit` for the last iterations, the oldest first. The oldest mark may just be replaced by
// that of the next iteration, and is left out.
template <typename Visit>
void ForEachIteration(const EngineFile& file, const Visit& visit) {
  const std::uint64_t count = std::min<std::uint64_t>(file.begun, kEngineMarks - 1);
  for (std::uint64_t n = file.begun - count; n < file.begun; ++n)
    visit(file.marks[n % kEngineMarks]);
}

}  // namespace strobe::wire
