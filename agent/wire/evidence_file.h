// What a process and its sidecar share while the process may stand still: the file
// "<stem>.evidence" of the agent directory. It outlives the process. C++ standard library only.
//
// The sidecar writes its orders with pwrite and reads with pread, so that only the program maps it.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace strobe::wire {

inline constexpr std::uint64_t kEvidenceMagic = 0x314456'45424f5254ull;  // "TROBEVD1" in memory.
inline constexpr std::uint32_t kEvidenceVersion = 1;
inline constexpr std::size_t kEvidenceBytes = 4096;
inline constexpr std::size_t kRefusalBytes = 128;

// What an order asks for, as bits.
inline constexpr std::uint32_t kWantStacks = 1, kWantCollectives = 2;

// How the dump of the last order went.
enum class FlightState : std::uint32_t {
  kNotAsked = 0,
  kRunning = 1,     // It has not come back: of this order, or of an earlier one.
  kWritten = 2,     // The dumps are in their files.
  kNoRecorder = 3,  // No recorder whose C++ symbol is known, or no process group.
  kFailed = 4       // It threw, or its file could not be written.
};

struct EvidenceHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t pid;            // In the program's own PID namespace.
  std::uint64_t began;          // When the process began, in the kernel's ticks since boot.
  char refusal[kRefusalBytes];  // Why there are no Python stacks. Not NUL-terminated.
  std::atomic<std::uint32_t> has_stacks;  // 1 once the reader has read its caller's stack rightly.

  // The sidecar writes these; `order` last. A new number is a new order, and 0 is none.
  alignas(64) std::atomic<std::uint64_t> between_ns;
  std::atomic<std::uint32_t> wants;
  std::atomic<std::uint64_t> order;

  // The program writes these while it runs.
  alignas(64) std::atomic<std::uint64_t> beat_ns;  // CLOCK_MONOTONIC, each 100 ms.
  std::atomic<std::uint64_t> answered;             // The last order that is done.
  std::atomic<std::uint64_t> ended_ns;    // CLOCK_MONOTONIC when its exit handlers ran; 0 before.
  std::atomic<std::uint32_t> flight;      // FlightState.
  std::atomic<std::uint32_t> has_groups;  // It has joined a process group of PyTorch.
  // The place of the process in its job; -1 where it is not known.
  std::atomic<std::int32_t> rank, local_rank, world_size;
};
static_assert(sizeof(EvidenceHeader) <= kEvidenceBytes);
// tests/support/evidence.py has these numbers.
static_assert(offsetof(EvidenceHeader, between_ns) == 192);
static_assert(offsetof(EvidenceHeader, order) == 208);
static_assert(offsetof(EvidenceHeader, answered) == 264);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// The program holds an exclusive lock on this byte while it lives.
inline constexpr long kEvidenceLifeByte = 0;

}  // namespace strobe::wire
