// The bytes that a program and its sidecar share. README.md draws them. C++ standard library only.
//
// One file per process. Everything that both sides touch is a lock-free atomic at a fixed place;
// all numbers are in the machine's own byte order, because both sides run on one machine.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace strobe::wire {

inline constexpr std::uint64_t kMagic = 0x315245'45424f5254ull;  // "TROBEER1" in memory.
inline constexpr std::uint32_t kVersion = 1;  // A reader refuses files of any other.

// What a time stamp counts.
enum class TickKind : std::uint32_t {
  kCycles = 1,      // The processor's invariant counter.
  kMonotonicNs = 2  // CLOCK_MONOTONIC, where there is none.
};

// A record never crosses the end of a block, and the first word of a block begins a record: where a
// reader that was overrun begins anew.
inline constexpr std::size_t kBlockWords = 512;
inline constexpr std::size_t kLargestRecordWords = 256;
inline constexpr std::size_t kThreadNameBytes = 16;  // As the kernel keeps it.
inline constexpr std::size_t kProgramBytes = 64;

struct FileHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t pid;  // In the program's own PID namespace.
  TickKind tick_kind;
  std::uint32_t most_rings;
  std::uint64_t rings_offset;  // Bytes from the file's start to the first ring.
  std::uint64_t ring_stride;   // Bytes from one ring to the next.
  std::uint64_t ring_words;    // Words of data in each; a power of two and whole blocks.
  char program[kProgramBytes];

  // Written by the sidecar, on a cache line of its own: every scope of every thread reads it.
  alignas(
      128) std::atomic<std::uint32_t> control;  // 0 = off, else the level up to which to record.

  // Written by the program.
  alignas(128) std::atomic<std::uint32_t> rings;  // Begun so far; never falls.
  std::atomic<std::uint32_t> reserved;
  std::atomic<std::uint64_t> without_ring;  // Records of threads that got no ring.
};
static_assert(sizeof(FileHeader) == 384);

struct RingHeader {
  // Positions are words since the ring began and only grow.
  std::atomic<std::uint64_t> claimed;  // Up to here data may be changing.
  std::atomic<std::uint64_t> head;     // Up to here records are whole.
  std::atomic<std::uint64_t> made;     // Scopes whole so far.
  std::atomic<std::uint32_t> thread_id;
  std::atomic<std::uint32_t> busy;  // 1 while a thread owns the ring.
  std::atomic<std::uint64_t> thread_name[kThreadNameBytes / 8];
  std::uint64_t padding[10];
};
static_assert(sizeof(RingHeader) == 128);

enum class RecordType : std::uint8_t {
  kPad = 0,    // Nothing; up to the block's end.
  kScope = 1,  // begin, end, text.
  kThread = 2  // thread id, name: what follows in this ring is that thread's.
};

// First word of a record.
struct RecordHead {
  std::uint16_t words;  // With this one.
  RecordType type;
  std::uint8_t level;
  std::uint32_t
      sequence;  // A scope's number in its ring, without its upper half; others have none.
};
static_assert(sizeof(RecordHead) == 8);

// kScope: head, begin, end, text bytes (low half of a word), text padded with NULs to whole words.
inline constexpr std::size_t kScopeFixedWords = 4;
// kThread: head, thread id, name.
inline constexpr std::size_t kThreadWords = 2 + kThreadNameBytes / 8;
inline constexpr std::size_t kLargestText = (kLargestRecordWords - kScopeFixedWords) * 8;

}  // namespace strobe::wire
