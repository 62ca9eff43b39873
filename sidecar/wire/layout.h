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
inline constexpr std::uint32_t kVersion = 3;  // A reader refuses files of any other.

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
  std::uint64_t rings_offset;   // Bytes from the file's start to the first ring.
  std::uint64_t ring_stride;    // Bytes from one ring to the next.
  std::uint64_t ring_words;     // Words of data in each; a power of two and whole blocks.
  std::uint64_t device_offset;  // Bytes from the file's start to the device ring.
  std::uint64_t device_words;   // Words of data in it; as above.
  char program[kProgramBytes];

  // Written by the sidecar, on a cache line of its own: every scope of every thread reads it.
  alignas(
      128) std::atomic<std::uint32_t> control;  // 0 = off, else the level up to which to record.
  std::atomic<std::uint32_t> filter;  // Scopes whose bits meet none of these are left out.
  // Whether to record the device: 0 = no, else the number of the wish. A futex of the program.
  std::atomic<std::uint32_t> device_control;
  std::atomic<std::uint64_t> device_until;  // CLOCK_MONOTONIC in ns; the program stops by then.
  // Until when (as device_until) to say how near the program is to its memory limit; 0 = not at
  // all.
  std::atomic<std::uint64_t> memory_until;

  // Written by the program.
  alignas(128) std::atomic<std::uint32_t> rings;  // Begun so far; never falls.
  std::atomic<std::uint32_t> uses_cuda;           // 1 once CUDA's driver was started.
  std::atomic<std::uint64_t> without_ring;        // Records of threads that got no ring.
  std::atomic<std::uint64_t> device_state;        // See DeviceState.
  std::atomic<std::uint64_t> device_lost;         // Records that CUPTI had no buffer for.
  std::atomic<std::uint32_t> device_result;       // What CUPTI answered when it failed, and
  std::atomic<std::uint32_t> device_step;         // to which call (DeviceStep).
  std::atomic<std::uint64_t> memory_used;         // Bytes, of the group that is nearest to its
  std::atomic<std::uint64_t> memory_limit;        // limit; 0 = there is none.
  std::atomic<std::uint64_t> memory_read_at;      // CLOCK_MONOTONIC in ns; 0 = never.
};
static_assert(sizeof(FileHeader) == 384);

// How far the program is with recording its devices.
enum class DevicePhase : std::uint32_t {
  kIdle = 0,
  kNoCuda = 1,   // No CUDA in this process: nothing to record.
  kNoCupti = 2,  // There is CUDA, but no CUPTI library was found.
  kFailed = 3,   // A call failed; all that had been switched on is off again.
  kArmed = 4,    // Records come.
  kFlushed = 5   // Off again; all records are in the ring.
};

// Of which wish that is, and the phase.
constexpr std::uint64_t DeviceState(std::uint32_t wish, DevicePhase phase) {
  return static_cast<std::uint64_t>(wish) << 32 | static_cast<std::uint32_t>(phase);
}

// The calls that may fail, as a number for the header.
enum class DeviceStep : std::uint32_t {
  kNone = 0,
  kSubscribe = 1,
  kRegisterCallbacks = 2,
  kEnableKernels = 3,
  kEnableCopies = 4,
  kTimestamp = 5,
  kReserve = 6,    // Room for the device ring.
  kSwitchOff = 7,  // Left as it is from then on.
  kFlush = 8       // CUPTI did not hand over its last records.
};

struct RingHeader {
  // Positions are words since the ring began and only grow.
  std::atomic<std::uint64_t> claimed;  // Up to here data may be changing.
  std::atomic<std::uint64_t> head;     // Up to here records are whole.
  std::atomic<std::uint64_t> made;     // Numbered records whole so far.
  std::atomic<std::uint32_t> thread_id;
  std::atomic<std::uint32_t> busy;  // 1 while a thread owns the ring.
  std::atomic<std::uint64_t> thread_name[kThreadNameBytes / 8];
  std::uint64_t padding[10];
};
static_assert(sizeof(RingHeader) == 128);

enum class RecordType : std::uint8_t {
  kPad = 0,     // Nothing; up to the block's end.
  kScope = 1,   // begin, end, text.
  kThread = 2,  // thread id, name: what follows in this ring is that thread's.
  // In the device ring only; device_records.h has them.
  kText = 3,
  kKernel = 4,
  kCopy = 5,
  kSet = 6,
  kMemory = 7,
  kCall = 8,
  kOverhead = 9,
  kExternal = 10,
  kMarker = 11,
  kDevice = 12,
  kClock = 13
};

// Definitions: not something that happened, and so without a number.
constexpr bool HasNumber(RecordType type) {
  return type != RecordType::kPad && type != RecordType::kThread && type != RecordType::kText &&
         type != RecordType::kDevice && type != RecordType::kClock;
}

// First word of a record.
struct RecordHead {
  std::uint16_t words;  // With this one.
  RecordType type;
  std::uint8_t level;
  std::uint32_t sequence;  // Its number in its ring, without the upper half; see HasNumber.
};
static_assert(sizeof(RecordHead) == 8);

// kScope: head, begin, end, text bytes (low half of a word), text padded with NULs to whole words.
inline constexpr std::size_t kScopeFixedWords = 4;
// kText: head, number and bytes, text padded with NULs to whole words.
inline constexpr std::size_t kTextFixedWords = 2;
// kThread: head, thread id, name.
inline constexpr std::size_t kThreadWords = 2 + kThreadNameBytes / 8;
inline constexpr std::size_t kLargestText = (kLargestRecordWords - kScopeFixedWords) * 8;

}  // namespace strobe::wire
