// The layout of the ring file that a program and its sidecar share. README.md shows it as a table.
// C++ standard library only.
//
// There is one ring file per process. Everything that both sides access is a lock-free atomic at a
// fixed offset. Numbers are in the machine's byte order, because both sides run on one machine.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace strobe::wire {

inline constexpr std::uint64_t kMagic = 0x315245'45424f5254ull;  // "TROBEER1" in memory.
inline constexpr std::uint32_t kVersion = 7;  // A reader refuses files of any other version.

// The unit of a time stamp.
enum class TickKind : std::uint32_t {
  kCycles = 1,      // The processor's invariant counter.
  kMonotonicNs = 2  // CLOCK_MONOTONIC in ns, if there is no such counter.
};

// A record never crosses the end of a block, and every block begins with a record. A reader that
// was overrun resumes at the next block.
inline constexpr std::size_t kBlockWords = 512;
inline constexpr std::size_t kMaxRecordWords = 256;
// Space for records is reserved in steps of this size, so that a thread's first record is cheap.
inline constexpr std::size_t kReserveWords = 8192;  // 64 KiB; a whole number of blocks.
// No program lives long enough to write this many words, so a larger position is damaged or forged.
inline constexpr std::uint64_t kMaxPosition = std::uint64_t{1} << 62;
inline constexpr std::size_t kThreadNameBytes = 48;  // The kernel's own names have up to 15.
inline constexpr std::size_t kProgramBytes = 64;
inline constexpr std::size_t kFileNameBytes = 64;
inline constexpr std::size_t kRecorderBytes = 128;
inline constexpr std::size_t kHolderBytes = 64;

// The parties that ask a program to record annotations. Each has a word for the level it requests,
// and `control` is the highest of them, so that none can switch off what another one requested.
enum class Wisher : std::uint32_t {
  kCapture = 0,  // The capture whose sidecar holds the file's lease.
  kSteps = 1,    // The job guard, which looks at training steps.
  kIdle = 2      // The flight recorder.
};
inline constexpr std::size_t kWishers = 3;

// The reason why a program's devices cannot be recorded at all.
enum class DeviceRefusal : std::uint32_t {
  kNone = 0,
  kSwitchedOff = 1,  // By the program's environment: STROBE_DEVICE, STROBE_DISABLE.
  kNoThread = 2      // No thread could be started in the program.
};

// What is recorded of devices. The numbers are those of strobe::DeviceMode.
enum class DeviceMode : std::uint32_t {
  kDefault = 0,  // kLaunches.
  kKernels = 2,
  kLaunches = 3,
  kGraphs = 4,
  kAll = 5
};
inline constexpr std::uint32_t kDeviceModeMask = 0xff;
enum DeviceOption : std::uint32_t {
  // Record devices also if Kineto is loaded, as long as it has not begun to record.
  kBesideKineto = 0x100,
  // Detach CUPTI from the process after the recording, where that is safe.
  kDetachAfterwards = 0x200
};

// Counts records of threads that have no ring. Threads are spread over several counters, so that
// they do not slow each other down by sharing a cache line.
struct alignas(64) StripedCounter {
  std::atomic<std::uint64_t> value;
};
inline constexpr std::size_t kStripes = 16;

// A training step, as its annotation told it.
struct StepMark {
  std::atomic<std::int64_t> number;
  std::atomic<std::uint64_t> began_ns;  // CLOCK_MONOTONIC; 0 while the mark is being written.
  std::atomic<std::uint64_t> ended_ns;  // CLOCK_MONOTONIC; 0 until the step has ended.
};
inline constexpr std::size_t kStepMarks = 16;
inline constexpr std::size_t kLoopNameBytes = 48;

// The steps of one loop: those with the same annotation. The mark of the n-th step that began is at
// index n % kStepMarks, counted from 0.
struct StepLoop {
  std::atomic<std::uint64_t> id;     // The hash of the loop's name; 0 if no loop uses this entry.
  std::atomic<std::uint64_t> begun;  // The number of steps that began.
  char name[kLoopNameBytes];         // Cut if it is longer. Not NUL-terminated.
  std::array<StepMark, kStepMarks> marks;
};
inline constexpr std::size_t kStepLoops = 4;  // The steps of further loops are not told.
using StepLoops = std::array<StepLoop, kStepLoops>;

// The file in which a process tells the steps of one framework without a thread that answers:
// strobe/_inproc/step_marks.py of the Python package writes it, each word as a whole.
struct StepFile {
  std::uint64_t magic;  // kStepMagic
  StepLoops loops;
  // The memory use of the process's container, as in FileHeader; told only while it is recorded.
  std::atomic<std::uint64_t> memory_used, memory_limit, memory_read_at;
};
inline constexpr std::uint64_t kStepMagic = 0x325345'424f525453ull;  // "STROBES2" in memory.
static_assert(sizeof(StepFile) == 1824);

struct FileHeader {
  // Fields that the program writes before the file is visible to others.
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t pid;  // In the program's own PID namespace.
  TickKind tick_kind;
  std::uint32_t max_rings;
  std::uint64_t rings_offset;   // Bytes from the file's start to the first ring.
  std::uint64_t ring_stride;    // Bytes from one ring to the next.
  std::uint64_t ring_words;     // Words of data in each; a power of two and whole blocks.
  std::uint64_t device_offset;  // Bytes from the file's start to the device ring.
  std::uint64_t device_words;  // Words of data in the device ring; a power of two and whole blocks.
  std::uint64_t born_ns;       // CLOCK_MONOTONIC when the program began, or was forked.
  std::uint32_t parent_pid;    // The parent of the process, whether traced or not.
  // When the process started, in the kernel's ticks since boot, of which these are the low 32 bits;
  // 0 if not known. An exec keeps it.
  // After a restart of a container, the same process ID has a different value.
  std::uint32_t process_began;
  // The process's place in its job; see JobRanks.
  std::int32_t rank, local_rank, world_size;
  char program[kProgramBytes];
  // The name of the ring file of the program that this one was forked from. Empty if there is none.
  char forked_from[kFileNameBytes];

  // Fields that the sidecar writes. Every scope of every thread reads the first two words.
  //
  // `control` is the level up to which annotations are recorded; 0 is off.
  alignas(128) std::atomic<std::uint32_t> control;
  // Scopes with a mask that has no bit in common are not recorded.
  std::atomic<std::uint32_t> filter;
  std::array<std::atomic<std::uint32_t>, kWishers> wishes;  // The requested level of each Wisher.
  // The number of the request to record devices; 0 if there is none. The program waits on it as a
  // futex.
  std::atomic<std::uint32_t> device_control;
  // The program stops recording devices at this time (CLOCK_MONOTONIC in ns).
  std::atomic<std::uint64_t> device_until;
  // The time (CLOCK_MONOTONIC in ns) until which the program runs the attendance thread, which
  // reports memory use, looks for CUDA, and withdraws the wishes of a sidecar that died. 0 if it is
  // not wanted.
  std::atomic<std::uint64_t> attend_until;
  // Ports of the worker's profiler servers that answer, four to a word; 0 is no port. A process
  // that listens on one of them leaves its devices to that server.
  std::array<std::atomic<std::uint64_t>, 2> framework_ports;
  // Changed whenever the ports were written, and to make a program whose devices are recorded look
  // again whether it listens on one of them.
  std::atomic<std::uint32_t> framework_ports_reported;
  char recorder[kRecorderBytes];  // The holder of the lease, human-readable. Not NUL-terminated.
  // How to record devices: a DeviceMode in the low byte, and bits of DeviceOption. Written before
  // device_control.
  std::atomic<std::uint32_t> device_mode;

  // Fields that the program writes while it runs.
  alignas(128) std::atomic<std::uint32_t> rings;  // Number of rings in use so far; never decreases.
  std::atomic<std::uint32_t> uses_cuda;           // 1 after CUDA's driver was initialized.
  std::atomic<std::uint64_t> cuda_since_ns;       // CLOCK_MONOTONIC in ns when that was noticed.
  // Why devices cannot be recorded: a DeviceRefusal.
  std::atomic<std::uint32_t> device_refusal;
  std::atomic<std::uint32_t> has_exited;    // 1 after the program's exit handlers ran.
  std::atomic<std::uint64_t> ended_ns;      // CLOCK_MONOTONIC in ns when they ran.
  std::atomic<std::uint64_t> device_state;  // See DeviceState.
  std::atomic<std::uint64_t> device_lost;   // Records for which CUPTI had no buffer.
  // Buffers with records that CUPTI did not return.
  std::atomic<std::uint64_t> device_buffers_lost;
  std::atomic<std::uint32_t> device_result;  // CUPTI's error code after a failure.
  std::atomic<std::uint32_t> device_step;    // The call that failed (DeviceStep).
  std::atomic<std::uint64_t> memory_used;  // Bytes used in the cgroup that is closest to its limit.
  std::atomic<std::uint64_t> memory_limit;    // Limit of that cgroup in bytes; 0 if there is none.
  std::atomic<std::uint64_t> memory_read_at;  // CLOCK_MONOTONIC in ns; 0 if never read.
  // The device ring's position at which the records of the request in device_state begin.
  std::atomic<std::uint64_t> device_begin;
  std::array<StripedCounter, kStripes> without_ring;  // Records of threads that got no ring.
  StepLoops step_loops;                               // Written whether or not a capture runs.
  // The tool that holds CUPTI, if that refused the agent for it, or else the tool with which the
  // agent shares it. Written before device_state. Empty if not known. Not NUL-terminated.
  char device_holder[kHolderBytes];
};
// The header occupies one page before the first ring.
inline constexpr std::size_t kHeaderBytes = 4096;
static_assert(sizeof(FileHeader) <= kHeaderBytes);

// The state of recording the program's devices.
enum class DevicePhase : std::uint32_t {
  kIdle = 0,
  kNoCuda = 1,     // No CUDA in this process: nothing to record.
  kNoCupti = 2,    // CUDA is loaded, but no CUPTI library was found.
  kFailed = 3,     // A call failed; everything was disabled again.
  kArmed = 4,      // Recording is enabled.
  kFlushed = 5,    // Recording is disabled; all records are in the ring.
  kFramework = 6,  // The profiler server in this process records the devices.
  kKineto = 7      // Not recorded, because PyTorch's profiler (Kineto) is loaded.
};

// The value of device_state: the number of the request and the phase.
constexpr std::uint64_t DeviceState(std::uint32_t wish, DevicePhase phase) {
  return static_cast<std::uint64_t>(wish) << 32 | static_cast<std::uint32_t>(phase);
}

// The calls that may fail.
enum class DeviceStep : std::uint32_t {
  kNone = 0,
  kSubscribe = 1,
  kRegisterCallbacks = 2,
  kEnableKernels = 3,
  kEnableCopies = 4,
  kTimestamp = 5,
  kReserve = 6,    // Reserving space for the device ring.
  kSwitchOff = 7,  // Disabling failed; CUPTI is not called again.
  kFlush = 8,      // Fetching CUPTI's last records failed.
  kEnableGraphs = 9
};

struct RingHeader {
  // Positions are in words since the ring began and never decrease.
  std::atomic<std::uint64_t> claimed;  // The writer may be changing words before this position.
  std::atomic<std::uint64_t> head;     // Records before this position are complete.
  std::atomic<std::uint64_t> made;     // Number of complete records with a sequence number.
  std::atomic<std::uint32_t> thread_id;
  std::atomic<std::uint32_t> busy;  // 1 while a thread owns the ring.
  std::atomic<std::uint64_t> thread_name[kThreadNameBytes / 8];
  std::atomic<std::uint64_t> reserved_words;  // Words of data for which space is reserved.
  std::atomic<std::uint64_t> dropped;         // Records lost because the volume was full.
  std::atomic<std::uint64_t> cut;             // Scopes of which a part of the text was cut.
  std::uint64_t padding[3];
};
static_assert(sizeof(RingHeader) == 128);

enum class RecordType : std::uint8_t {
  kPad = 0,     // Padding up to the end of the block.
  kScope = 1,   // begin, end, text.
  kThread = 2,  // thread id, name; later records in this ring belong to that thread.
  // In the device ring only; see device_records.h.
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
  kClock = 13,
  kPart = 14  // bytes, text; the next piece of a text that is too long for its kScope.
};

// True for events. Definitions have no sequence number.
constexpr bool HasNumber(RecordType type) {
  return type != RecordType::kPad && type != RecordType::kThread && type != RecordType::kText &&
         type != RecordType::kDevice && type != RecordType::kClock && type != RecordType::kPart;
}

// The first word of a record.
struct RecordHead {
  std::uint16_t words;  // Length of the record, including this word.
  RecordType type;
  std::uint8_t level;
  std::uint32_t sequence;  // Low half of the record's number in its ring; see HasNumber.
};
static_assert(sizeof(RecordHead) == 8);

// kScope: head, begin, end, text bytes (low half of a word) and text bytes in the parts before
// (high half), text padded with NULs to whole words.
inline constexpr std::size_t kScopeFixedWords = 4;
// kPart: head, text bytes, text padded with NULs to whole words. The parts of a scope precede it
// without other records between them.
inline constexpr std::size_t kPartFixedWords = 2;
inline constexpr std::size_t kMaxPartBytes = (kMaxRecordWords - kPartFixedWords) * 8;
// The text of a scope is cut to this many bytes, and to a quarter of a ring.
inline constexpr std::size_t kMaxScopeText = 64 << 10;
// kText: head, number and bytes, text padded with NULs to whole words.
inline constexpr std::size_t kTextFixedWords = 2;
// kThread: head, thread id, name.
inline constexpr std::size_t kThreadWords = 2 + kThreadNameBytes / 8;
inline constexpr std::size_t kMaxTextBytes = (kMaxRecordWords - kScopeFixedWords) * 8;

// The content of the directory's file `orders`: the requests that a program follows at once if it
// starts while a capture or a flight recorder runs, before a sidecar has found it. The file is
// replaced by rename, and removed if there are no requests.
struct Orders {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t filter;
  std::array<std::uint32_t, kWishers> wishes;
  std::uint16_t devices;      // 1 to record devices as well.
  std::uint16_t device_mode;  // FileHeader::device_mode.
  std::uint64_t device_until, attend_until;
  std::array<std::uint64_t, 2> framework_ports;
};
static_assert(sizeof(Orders) == 64);

inline constexpr std::size_t kContainerBytes = 64;

// A record of the directory's file `failures`: a process that could not create its ring file. The
// process holds a lock on its record while it lives.
struct Failure {
  std::uint32_t magic;
  std::uint32_t pid;    // In the program's own PID namespace.
  std::uint32_t step;   // FailureStep.
  std::uint32_t error;  // errno.
  std::uint64_t at_ns;  // CLOCK_MONOTONIC.
  char program[40];
  char container[kContainerBytes];  // The result of OwnContainer.
};
static_assert(sizeof(Failure) == 128);
inline constexpr std::uint32_t kFailureMagic = 0x4c494146;  // "FAIL" in memory.
inline constexpr std::size_t kMaxFailures = 1024;
// A record without the magic number is free. Hold a lock on this byte while adding or freeing a
// record.
inline constexpr std::uint64_t kFailureGuardByte = 1u << 20;

enum class FailureStep : std::uint32_t {
  kCreate = 1,   // The file could not be created or sized.
  kReserve = 2,  // There was no space for its first page.
  kMap = 3,      // There was no address space to map it.
  kPublish = 4,  // It could not be renamed to its final name.
  // No key for thread-specific data was left, by which the agent notices the end of a thread.
  kThreadKey = 5,
};

}  // namespace strobe::wire
