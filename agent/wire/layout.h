// The bytes that a program and its sidecar share. README.md draws them. C++ standard library only.
//
// There is one ring file per process. Everything that both sides touch is a lock-free atomic at a
// fixed place. All numbers are in the machine's own byte order, because both sides run on one
// machine.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace strobe::wire {

inline constexpr std::uint64_t kMagic = 0x315245'45424f5254ull;  // "TROBEER1" in memory.
inline constexpr std::uint32_t kVersion = 4;  // A reader refuses files of any other version.

// What a time stamp counts.
enum class TickKind : std::uint32_t {
  kCycles = 1,      // The processor's invariant counter.
  kMonotonicNs = 2  // CLOCK_MONOTONIC, where there is none.
};

// A record never crosses the end of a block, and the first word of a block begins a record: a
// reader that was overrun begins anew at the next block.
inline constexpr std::size_t kBlockWords = 512;
inline constexpr std::size_t kLargestRecordWords = 256;
// Space for records is reserved in steps of this size, so that a thread's first record costs
// little.
inline constexpr std::size_t kReserveWords = 8192;  // 64 KiB; a whole number of blocks.
// Positions beyond this are damage or forgery: no program lives long enough to write so much.
inline constexpr std::uint64_t kMaxPosition = std::uint64_t{1} << 62;
inline constexpr std::size_t kThreadNameBytes = 16;  // As the kernel keeps it.
inline constexpr std::size_t kProgramBytes = 64;
inline constexpr std::size_t kFileNameBytes = 64;
inline constexpr std::size_t kRecorderBytes = 128;

// Who asks a program to record its annotations. Each has a word for the level that it wants, and
// `control` is the highest of them, so that none can switch off what another one asked for.
enum class Wisher : std::uint32_t {
  kCapture = 0,  // The capture whose sidecar holds the file's lease.
  kSteps = 1,    // The job guard, which looks at training steps.
  kIdle = 2      // The flight recorder.
};
inline constexpr std::size_t kWishers = 3;

// Why a program's devices cannot be asked for at all.
enum class DeviceRefusal : std::uint32_t {
  kNone = 0,
  kSwitchedOff = 1,  // STROBE_DEVICE=off in the program's environment.
  kNoThread = 2      // No thread could be started in the program.
};

// Counters of records that found no ring. Threads are spread over them, so that many threads
// without a ring do not slow each other down by one cache line.
struct alignas(64) StripedCounter {
  std::atomic<std::uint64_t> value;
};
inline constexpr std::size_t kStripes = 16;

struct FileHeader {
  // Written by the program before anybody else sees the file.
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t pid;  // In the program's own PID namespace.
  TickKind tick_kind;
  std::uint32_t max_rings;
  std::uint64_t rings_offset;   // Bytes from the file's start to the first ring.
  std::uint64_t ring_stride;    // Bytes from one ring to the next.
  std::uint64_t ring_words;     // Words of data in each; a power of two and whole blocks.
  std::uint64_t device_offset;  // Bytes from the file's start to the device ring.
  std::uint64_t device_words;   // Words of data in it; as above.
  std::uint64_t born_ns;        // CLOCK_MONOTONIC when the program began, or was forked.
  std::uint32_t parent_pid;     // Of the process, whoever that is.
  // When the process began, in the kernel's ticks since boot, 0 = not known. An exec keeps it; a
  // container that is restarted has the same process ID and another beginning.
  std::uint32_t process_began;
  char program[kProgramBytes];
  // Name of the ring file of the program that this one was forked from; empty when there is none.
  char forked_from[kFileNameBytes];

  // Written by the sidecar. The first two words are read by every scope of every thread.
  alignas(
      128) std::atomic<std::uint32_t> control;  // 0 = off, else the level up to which to record.
  std::atomic<std::uint32_t> filter;  // Scopes whose bits meet none of these are left out.
  std::array<std::atomic<std::uint32_t>, kWishers> wishes;  // Levels, by Wisher.
  // Whether to record the devices: 0 = no, else the number of the wish. A futex of the program.
  std::atomic<std::uint32_t> device_control;
  std::atomic<std::uint64_t> device_until;  // CLOCK_MONOTONIC in ns; the program stops by then.
  // Until when (as device_until) the program shall attend the capture on a thread of its own: tell
  // its memory's use, look for CUDA, and end what a dead sidecar left switched on. 0 = not at all.
  std::atomic<std::uint64_t> attend_until;
  // Ports of the worker's profiler servers that answer, four to a word, 0 = none: the devices of
  // the process that listens on one of them are recorded by its own profiler.
  std::array<std::atomic<std::uint64_t>, 2> framework_ports;
  char recorder[kRecorderBytes];  // Who holds the lease, for people; not a terminated string.

  // Written by the program.
  alignas(128) std::atomic<std::uint32_t> rings;      // Begun so far; never falls.
  std::atomic<std::uint32_t> uses_cuda;               // 1 once CUDA's driver was started.
  std::atomic<std::uint64_t> cuda_since_ns;           // CLOCK_MONOTONIC when that was noticed.
  std::atomic<std::uint32_t> device_refusal;          // DeviceRefusal.
  std::atomic<std::uint32_t> ended;                   // 1 once the program's exit handlers ran.
  std::atomic<std::uint64_t> ended_ns;                // CLOCK_MONOTONIC when they did.
  std::atomic<std::uint64_t> device_state;            // See DeviceState.
  std::atomic<std::uint64_t> device_lost;             // Records that CUPTI had no buffer for.
  std::atomic<std::uint64_t> device_buffers_lost;     // Buffers with records that never came back.
  std::atomic<std::uint32_t> device_result;           // What CUPTI answered when it failed, and
  std::atomic<std::uint32_t> device_step;             // to which call (DeviceStep).
  std::atomic<std::uint64_t> memory_used;             // Bytes, of the group that is nearest to its
  std::atomic<std::uint64_t> memory_limit;            // limit; 0 = there is none.
  std::atomic<std::uint64_t> memory_read_at;          // CLOCK_MONOTONIC in ns; 0 = never.
  std::array<StripedCounter, kStripes> without_ring;  // Records of threads that got no ring.
};
// The header's page, before the first ring.
inline constexpr std::size_t kHeaderBytes = 4096;
static_assert(sizeof(FileHeader) <= kHeaderBytes);

// How far the program is with recording its devices.
enum class DevicePhase : std::uint32_t {
  kIdle = 0,
  kNoCuda = 1,     // No CUDA in this process: nothing to record.
  kNoCupti = 2,    // There is CUDA, but no CUPTI library was found.
  kFailed = 3,     // A call failed; all that had been switched on is off again.
  kArmed = 4,      // Records come.
  kFlushed = 5,    // Off again; all records are in the ring.
  kFramework = 6,  // Left to the profiler server that listens in this process.
  kKineto = 7      // Left alone: PyTorch's own profiler (Kineto) is in this process.
};

// The state of device recording: of which wish, and the phase.
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
  std::atomic<std::uint64_t> reserved_words;  // Words of data whose space is certain.
  std::atomic<std::uint64_t> dropped;         // Records that found no space.
  std::uint64_t padding[8];
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

// Definitions do not happen, and so have no number.
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

// The file `orders` of the directory: what a program that begins while a capture or a flight
// recorder is under way shall do at once, before a sidecar has found it. It is replaced as a whole,
// by rename, and removed when there is nothing to order.
struct Orders {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t filter;
  std::array<std::uint32_t, kWishers> wishes;
  std::uint32_t devices;  // 1 = record them too.
  std::uint64_t device_until, attend_until;
  std::array<std::uint64_t, 2> framework_ports;
};
static_assert(sizeof(Orders) == 64);

inline constexpr std::size_t kContainerBytes = 64;

// A record of the file `failures` of the directory: a process that could not make its ring file. It
// holds a lock on its record while it lives.
struct Failure {
  std::uint32_t magic;
  std::uint32_t pid;    // In the program's own PID namespace.
  std::uint32_t step;   // FailureStep.
  std::uint32_t error;  // errno.
  std::uint64_t at_ns;  // CLOCK_MONOTONIC.
  char program[40];
  char container[kContainerBytes];  // OwnContainer.
};
static_assert(sizeof(Failure) == 128);
inline constexpr std::uint32_t kFailureMagic = 0x4c494146;  // "FAIL" in memory.
inline constexpr std::size_t kMaxFailures = 1024;
// A record without the magic number is free. Whoever writes one or frees it holds a lock on this
// byte.
inline constexpr std::uint64_t kFailureGuardByte = 1u << 20;

enum class FailureStep : std::uint32_t {
  kCreate = 1,     // The file could not be created or sized.
  kReserve = 2,    // No space for its first page.
  kMap = 3,        // No address space for it.
  kPublish = 4,    // It could not be renamed into its place.
  kThreadKey = 5,  // No key is left by which the end of threads is noticed.
};

}  // namespace strobe::wire
