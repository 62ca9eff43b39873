// What the trace of one worker says about where the worker's time went. A digest is small, at most
// kMaxDigestBytes when it is encoded, so that those of thousands of workers can be merged one after
// another. README.md defines every quantity and names the sources of the classification.
//
// Times are in ns on the worker's own clock and count from Digest::zero_ns; durations are in ns.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace strobe::digest {

inline constexpr std::size_t kMaxDigestBytes = 256 << 10;

// How a device spent a span of time. The parts that are not hidden behind others add up to it:
//   span = compute + exposed_communication + exposed_copies + idle
// For a worker with several devices it is the mean over them, without SparseCores and devices on
// which nothing ran.
struct Breakdown {
  std::int64_t span_ns = 0;
  std::int64_t compute_ns = 0;                // At least one computation ran.
  std::int64_t communication_ns = 0;          // At least one collective or transfer to a peer ran.
  std::int64_t exposed_communication_ns = 0;  // The part of it during which nothing computed.
  std::int64_t copies_ns = 0;                 // At least one copy or memset ran.
  std::int64_t exposed_copies_ns = 0;  // The part without computation and without communication.
  std::int64_t idle_ns = 0;            // Nothing ran.

  bool operator==(const Breakdown&) const = default;
};

// Why the devices idled, as far as the trace tells; see Knows. Input stall, garbage
// collection and host-bound gap do not overlap, in this order of precedence, and their sum is at
// most the idle time of the step's Breakdown, if the worker has one.
struct HostTime {
  std::int64_t input_ns = 0;        // The host waited for input, on the thread of the step.
  std::int64_t input_stall_ns = 0;  // The part of it during which no device worked.
  // The program's garbage collector ran on the thread of the step and no device worked.
  std::int64_t garbage_collection_ns = 0;
  // Devices idled because the host launched their next work only after the previous had ended.
  std::int64_t host_bound_ns = 0;

  bool operator==(const HostTime&) const = default;
};

// The batch of a step that is an iteration of an inference server; zeros for any other step.
struct Batch {
  std::int64_t prefill_requests = 0, prefill_tokens = 0;
  std::int64_t decode_requests = 0, decode_tokens = 0;
  // The requests that ran already when it was planned, of which 0 means that the engine had waited
  // for one; -1 = not told.
  std::int64_t running_before = -1;
  bool any() const { return prefill_requests > 0 || decode_requests > 0; }

  bool operator==(const Batch&) const = default;
};

struct Step {
  std::uint32_t loop = 0;   // The annotation's name, in Digest::names.
  std::int64_t number = 0;  // As the program numbers it.
  // From the begin of the annotation to the begin of the next step or, without one, to its own end.
  std::int64_t begin_ns = 0, end_ns = 0;
  // end_ns is the begin of the step with the next number, so that the time between two steps, in
  // which many programs load their input, is a part of this one. False for a last step, which is
  // shorter by that time than it would be otherwise.
  bool followed = false;
  std::int64_t annotation_end_ns = 0;  // Where the annotation itself ended.
  Breakdown time{};  // What the devices did, from begin to end; zeros without a device.
  HostTime host{};
  Batch batch{};

  bool operator==(const Step&) const = default;
};

struct Device {
  // The name of its plane, such as "/device:GPU:0" or "/device:TPU:0 SparseCore 1".
  std::string name{};
  // The first begin and the last end of work on it; equal if it has none.
  std::int64_t first_ns = 0, last_ns = 0;
  Breakdown time{};  // Over the recorded span of the digest.
  // Work on the device was told only as lines of programs or modules, not as single operations: all
  // of it counts as compute.
  bool coarse = false;
  // Sums over the operations, where the trace tells them; 0 = not told.
  std::uint64_t flops = 0, bytes_accessed = 0;
  // What the device can do in a second, as the trace tells it; 0 = not told.
  std::uint64_t peak_flops = 0, peak_bytes = 0;
  // The largest value of the counters of memory in use, and the memory that it has, in bytes;
  // nullopt = not told.
  std::optional<std::uint64_t> peak_memory_bytes{}, memory_bytes{};

  bool operator==(const Device&) const = default;
};

enum class CollectiveKind : std::uint8_t {
  kOther,
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBroadcast,
  kReduce,
  kGather,
  kScatter,
  kPermute,
  kSend,
  kReceive,
  kBarrier,
};

// A group of ranks that talk with each other.
struct Communicator {
  // What the trace calls it: "0" or "default_pg" of PyTorch, replica groups such as "{{0,1},{2,3}}"
  // of XLA; empty if the trace does not tell.
  std::string name{};
  std::uint32_t size = 0;              // The number of ranks; 0 = not told.
  std::vector<std::uint32_t> ranks{};  // This worker's group; empty = not told.

  bool operator==(const Communicator&) const = default;
};

struct Collective {
  std::uint32_t communicator = 0;  // In Digest::communicators.
  std::uint32_t name = 0;          // In Digest::names.
  // How many of this name on this communicator and device began before it in the trace. Workers
  // that began to record at different times start counting at different collectives; times and
  // steps tell by how many they differ.
  std::uint32_t ordinal = 0;
  // An index into Digest::devices; kNoDevice if only the host's events tell of the call.
  std::uint32_t device = 0;
  std::int64_t begin_ns = 0;  // When this worker arrived.
  std::int64_t end_ns = 0;
  std::uint64_t bytes = 0;  // 0 = not told.
  // The number that the program itself gives it, which is the same on all ranks; -1 = none.
  std::int64_t sequence = -1;
  CollectiveKind kind = CollectiveKind::kOther;

  bool operator==(const Collective&) const = default;
};
inline constexpr std::uint32_t kNoDevice = 0xffffffff;

// What the time of an event counts as.
enum class WorkKind : std::uint8_t {
  kCompute,
  kCommunication,
  kCopy,
  kInput,
  kGarbageCollection,
  kHost,   // Anything else on a host thread.
  kScope,  // A name that the program gives to a part of itself, such as a layer.
};

struct Op {
  std::uint32_t name = 0;  // In Digest::names.
  WorkKind kind = WorkKind::kCompute;
  std::uint64_t count = 0;
  // Self time is the total minus the time of what ran inside, on the same line.
  std::int64_t total_ns = 0, self_ns = 0;
  // Quantiles of single durations, within 2 %. Zeros if they are not known, because the trace has
  // more different durations than are counted.
  std::int64_t p50_ns = 0, p99_ns = 0;
  bool knows_quantiles() const { return p99_ns > 0 || total_ns == 0; }
  std::uint64_t flops = 0, bytes_accessed = 0;  // Sums over all of them; 0 = not told.

  bool operator==(const Op&) const = default;
};

// What the trace can tell at all. Where a flag is false, the zeros of that quantity mean nothing.
struct Knows {
  bool device = false;    // It tells of work on a device, or of operations of a runtime on the
                          // host; see `host_device`.
  bool launches = false;  // Work on devices is joined with its launch: host_bound_ns.
  bool input = false;     // It has events of a known input pipeline: input_ns, input_stall_ns.
  bool garbage_collection = false;  // It has events of a garbage collector.
  bool steps = false;
  // The "device" is the host: operations of a runtime for CPUs, of which each thread is a line.
  bool host_device = false;
  // The trace tells that there is a device, but not what ran on it: `device` is false.
  bool device_untold = false;

  bool operator==(const Knows&) const = default;
};

// How much did not fit into the encoding or exceeded a limit, and is missing from the lists. Sums
// are not affected.
struct Cuts {
  std::uint64_t steps = 0, collectives = 0, ops = 0, devices = 0;
  bool any() const { return steps + collectives + ops + devices > 0; }

  bool operator==(const Cuts&) const = default;
};

struct Digest {
  std::string worker{};                       // The name of the trace file without its ending.
  std::optional<std::uint32_t> rank{};        // In the job; nullopt = not told.
  std::optional<std::uint32_t> world_size{};  // The number of ranks of the job.
  std::string host{};                         // The machine's name; empty = not told.
  // What the worker does in its service or job, and which rank system its rank counts in; empty =
  // not known. They are not encoded: who asks a sidecar for a digest knows them better.
  std::string role{}, group{};

  // Unix time of this digest's time 0 on the worker's clock, in ns; 0 = not told.
  std::int64_t zero_ns = 0;
  // Worker clock minus operator clock, in ns, and the half-width of the offset's error interval;
  // nullopt = not measured.
  std::int64_t clock_offset_ns = 0;
  std::optional<std::int64_t> clock_error_ns{};
  // What was recorded: from the profiler's start to its stop or, if the trace does not tell them,
  // from the first event to the end of the last.
  std::int64_t begin_ns = 0, end_ns = 0;
  std::uint64_t events = 0;  // In the trace.

  Knows knows{};
  Breakdown time{};  // The mean over the devices, as Breakdown says.
  HostTime host_time{};
  std::vector<std::string> names{};  // Each once.
  std::vector<Step> steps{};         // By begin.
  std::vector<Device> devices{};
  std::vector<Communicator> communicators{};  // The collectives name them.
  // The groups of ranks that this worker is in, as the program itself tells them, whether they
  // called anything or not. They have the names of communicators.
  std::vector<Communicator> groups{};
  std::vector<Collective> collectives{};  // By begin.
  std::vector<Op> ops{};                  // The one with the most self time first.
  Cuts cuts{};

  bool operator==(const Digest&) const = default;
};

}  // namespace strobe::digest
