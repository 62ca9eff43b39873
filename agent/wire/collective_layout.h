// The layout of the file in which a program tells its collectives: `<stem>.nccl` beside the ring
// file `<stem>.rings`. C++ standard library only.
//
// It is a file of its own, and not a kind of ring, because the calls of one communicator come from
// several threads, and because a sidecar must find the newest calls in a process that does not run
// any more. A record is fixed in size and is written by the thread that calls the library; a thread
// of the library may add to it later. Nobody waits for anybody.
//
// Versions: a reader refuses another `version`. Records and communicators may grow at their ends
// within a version, so a reader takes their sizes from the header. Codes that it does not know are
// shown as kOther.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "agent/wire/layout.h"

namespace strobe::wire {

inline constexpr std::uint64_t kCollectiveMagic = 0x314345'424f525453ull;  // "STROBEC1" in memory.
inline constexpr std::uint32_t kCollectiveVersion = 1;
inline constexpr std::uint32_t kCollectiveCommunicators = 256;
inline constexpr std::uint32_t kCollectiveRecords = 8192;  // A power of two.
inline constexpr std::size_t kCommunicatorNameBytes = 40;

enum class CollectiveCall : std::uint8_t {
  kOther = 0,
  kAllReduce = 1,
  kAllGather = 2,
  kReduceScatter = 3,
  kBroadcast = 4,
  kReduce = 5,
  kAllToAll = 6,
  kGather = 7,
  kScatter = 8,
  kSend = 9,
  kReceive = 10,
};
inline constexpr std::size_t kCollectiveCalls = 11;

enum class ElementType : std::uint8_t {
  kOther = 0,
  kInt8 = 1,
  kUint8 = 2,
  kInt32 = 3,
  kUint32 = 4,
  kInt64 = 5,
  kUint64 = 6,
  kFloat16 = 7,
  kFloat32 = 8,
  kFloat64 = 9,
  kBfloat16 = 10,
  kFloat8 = 11,
};
inline constexpr std::size_t kElementTypes = 12;

// What the program says of the times that its devices measure.
enum class DeviceTimes : std::uint32_t {
  kNotAsked = 0,      // The pod asked for the begins of calls only.
  kOnRequest = 1,     // They are taken until `device_times_until`.
  kSlowVersion = 2,   // Not with this version of the library; see agent/nccl/plugin.h.
  kOtherLibrary = 3,  // The library's version is not known.
};

enum class CollectiveLibrary : std::uint32_t { kUnknown = 0, kNccl = 1, kRccl = 2 };

// In CollectiveRecord::key and CollectiveCommunicator::newest_key.
struct CallKey {
  std::uint16_t communicator;
  CollectiveCall call;
  ElementType type;
  std::int32_t peer;  // The root of a rooted collective, the peer of a send; -1 if it is not known.
};
static_assert(sizeof(CallKey) == 8);

// What the library chose for a call.
struct CollectiveHow {
  std::uint8_t channels, algorithm, protocol;
  std::uint8_t flags;  // kCaptured.
  std::uint32_t thread;
};
static_assert(sizeof(CollectiveHow) == 8);
inline constexpr std::uint8_t kCaptured = 1;  // For a graph, whose runs are not told.

struct alignas(64) CollectiveRecord {
  // Twice the record's number plus one while it is written, twice the number plus two when it is
  // complete; 0 before the first.
  std::atomic<std::uint64_t> stamp;
  std::atomic<std::uint64_t> begin;     // Ticks, when the program called the library.
  std::atomic<std::uint64_t> launched;  // Ticks, when the library enqueued it; 0 until then.
  // The number of the call among those of its communicator, from 1. Sends and receives are counted
  // by themselves.
  std::atomic<std::uint64_t> ordinal;
  std::atomic<std::uint64_t> count;  // Elements.
  std::atomic<std::uint64_t> key;    // CallKey.
  std::atomic<std::uint64_t> how;    // CollectiveHow.
  // The number that the library gives it, which counts each function of a communicator by itself.
  std::atomic<std::uint64_t> sequence;
  // Written by the library's own thread. Times of the device's clock in ns; 0 if not told.
  std::atomic<std::uint64_t> device_begin, device_end;
  // CLOCK_MONOTONIC in ns when the program learned of device_end; not earlier than that moment.
  std::atomic<std::uint64_t> end_seen_ns;
  std::atomic<std::uint64_t> channels_begun, channels_ended;
  std::uint64_t reserved[3];
};
static_assert(sizeof(CollectiveRecord) == 128);

struct alignas(64) CollectiveCommunicator {
  std::uint64_t id;  // It is the same on all ranks.
  std::int32_t rank, ranks, nodes;
  std::atomic<std::uint32_t> ended;                   // 1 after the communicator was destroyed.
  char name[kCommunicatorNameBytes];                  // Not NUL-terminated.
  std::atomic<std::uint64_t> collectives, transfers;  // Calls so far.
  // The newest collective, so that it is known however many calls other communicators made.
  std::atomic<std::uint64_t> newest_begin, newest_count, newest_key;
  std::atomic<std::uint64_t> launched;  // Collectives that the library enqueued.
  std::uint64_t reserved[2];
};
static_assert(sizeof(CollectiveCommunicator) == 128);

struct CollectiveHeader {
  std::uint64_t magic;
  std::uint32_t version, pid;  // In the program's own PID namespace.
  TickKind tick_kind;
  std::uint32_t record_bytes, communicator_bytes;
  std::uint32_t max_communicators, max_records;
  CollectiveLibrary library;
  std::uint32_t library_version;  // 22809 is 2.28.9; 0 if not known.
  std::uint32_t interface_version;
  std::uint32_t chained_version;  // That of the plugin that was there before; 0: none.
  DeviceTimes device_times;
  // CLOCK_MONOTONIC and ticks, read at the same moment when the file was made.
  std::uint64_t born_ns, born_ticks;
  std::int32_t rank, local_rank, world_size;  // See JobRanks in ring_file.h.

  // Written by the sidecar: CLOCK_MONOTONIC in ns until which the devices' times are wanted.
  alignas(128) std::atomic<std::uint64_t> device_times_until;

  // Written by the program.
  alignas(128) std::atomic<std::uint64_t> made;  // Records begun.
  std::atomic<std::uint32_t> communicators;      // Entries in use; never decreases.
  std::atomic<std::uint32_t> reserved;
  std::atomic<std::uint64_t> without_entry;  // Calls of communicators that found no free entry.
  std::atomic<std::uint64_t> calls[16];      // By CollectiveCall.
};
static_assert(sizeof(CollectiveHeader) <= kHeaderBytes);

inline constexpr std::size_t kCollectiveFileBytes =
    kHeaderBytes + kCollectiveCommunicators * sizeof(CollectiveCommunicator) +
    kCollectiveRecords * sizeof(CollectiveRecord);

// The library's word for a call, such as "AllReduce".
CollectiveCall CollectiveCallOf(std::string_view name);
// The library's word for a type, such as "ncclFloat32".
ElementType ElementTypeOf(std::string_view name);
// As in CollectiveCallOf; "Other" for kOther and unknown codes.
std::string_view NameOf(CollectiveCall call);
// As PyTorch calls the type, such as "Float"; "" for kOther and unknown codes.
std::string_view NameOf(ElementType type);
// Bytes of an element; 0 if they are not known.
std::uint64_t BytesOf(ElementType type);

inline bool IsTransfer(CollectiveCall call) {
  return call == CollectiveCall::kSend || call == CollectiveCall::kReceive;
}

}  // namespace strobe::wire
