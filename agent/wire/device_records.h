// The records of the device ring. C++ standard library only.
//
// Enumerations are CUPTI's own numbers (cupti_activity.h); the sidecar knows their names. Times are
// in nanoseconds of CUPTI's clock; ClockRecords relate them to ticks.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <type_traits>

namespace strobe::wire {

// A text is written once and then referred to by number; 0 is no text. A kText record has the
// number (low half of a word), the size in bytes (high half), and the text padded with NULs.

// Texts and devices are written again after this many words of other records. A reader that begins
// in the middle of a ring therefore knows, after this many words, those of all further records.
constexpr std::uint64_t AgainAfter(std::uint64_t ring_words) { return ring_words / 8; }

struct KernelRecord {
  std::uint64_t begin = 0, end = 0;
  std::uint32_t device = 0, context = 0, stream = 0, correlation = 0;
  std::uint32_t name = 0, graph = 0;
  std::uint64_t graph_node = 0;
  std::uint32_t grid[3] = {}, block[3] = {};
  std::uint32_t static_shared = 0, dynamic_shared = 0;  // Bytes per block.
  std::uint32_t registers = 0, local_memory = 0;        // Per thread.
};

struct CopyRecord {
  std::uint64_t begin = 0, end = 0, bytes = 0;
  std::uint32_t device = 0, context = 0, stream = 0, correlation = 0;
  std::uint32_t graph = 0, to_device = 0;
  std::uint8_t copy_kind = 0, source_kind = 0, destination_kind = 0,
               flags = 0;  // In flags, 1 means asynchronous.
  std::uint32_t reserved = 0;
};

struct SetRecord {
  std::uint64_t begin = 0, end = 0, bytes = 0;
  std::uint32_t device = 0, context = 0, stream = 0, correlation = 0;
  std::uint32_t graph = 0, value = 0;
  std::uint16_t memory_kind = 0, flags = 0;
  std::uint32_t reserved = 0;
};

struct MemoryRecord {
  std::uint64_t time = 0, bytes = 0, address = 0;
  std::uint32_t device = 0, context = 0, stream = 0, correlation = 0;
  std::uint32_t operation = 0, memory_kind = 0;  // Operation 1 allocates, 2 releases.
};

// A call of CUDA's runtime or driver.
struct CallRecord {
  std::uint64_t begin = 0, end = 0;
  std::uint32_t thread = 0, correlation = 0;
  std::uint32_t name = 0, result = 0;
};

// Time that the program lost to CUPTI itself.
struct OverheadRecord {
  std::uint64_t begin = 0, end = 0;
  std::uint32_t kind = 0, reserved = 0;
};

// Relates a call to a framework's own number for the operation that made it.
struct ExternalRecord {
  std::uint64_t external = 0;
  std::uint32_t correlation = 0, kind = 0;
};

// The beginning or the end of an NVTX range, or an NVTX mark.
struct MarkerRecord {
  std::uint64_t time = 0;
  std::uint32_t id = 0, flags = 0;  // Flags: 1 is a mark, 2 begins a range, 4 ends a range.
  std::uint32_t thread = 0, name = 0, domain = 0, reserved = 0;
};

// A device that the program sees. A field is 0 if the driver does not report it.
struct DeviceRecord {
  std::uint32_t ordinal = 0, name = 0;
  std::uint8_t uuid[16] = {};
  std::uint64_t memory = 0;  // Bytes.
  std::uint32_t major = 0, minor = 0, cores = 0, clock_khz = 0, memory_clock_khz = 0, bus_bits = 0;
  // Limits of one core (streaming multiprocessor).
  std::uint32_t warp = 0, threads = 0, blocks = 0, registers = 0, shared = 0;
  std::uint32_t driver_version = 0;  // 12080 is version 12.8.
};

// CUPTI's clock and the ring's ticks, read at the same moment.
struct ClockRecord {
  std::uint64_t device_ns = 0, ticks = 0;
  std::uint64_t lost = 0;  // FileHeader::device_lost at that moment.
};

template <typename T>
inline constexpr std::size_t kWordsOf = sizeof(T) / 8;

template <typename T>
inline constexpr bool kIsPayload =
    std::is_trivially_copyable_v<T> &&
    sizeof(T) % 8 == 0 && std::has_unique_object_representations_v<T>;
static_assert(kIsPayload<KernelRecord> && kIsPayload<CopyRecord> && kIsPayload<SetRecord> &&
              kIsPayload<MemoryRecord> && kIsPayload<CallRecord> && kIsPayload<OverheadRecord> &&
              kIsPayload<ExternalRecord> && kIsPayload<MarkerRecord> && kIsPayload<DeviceRecord> &&
              kIsPayload<ClockRecord>);

// Decodes a record that RingWriter::Record wrote. `words` has kWordsOf<T> elements.
template <typename T>
T FromWords(std::span<const std::uint64_t> words) {
  std::array<std::uint64_t, kWordsOf<T>> copy;
  std::copy_n(words.begin(), copy.size(), copy.begin());
  return std::bit_cast<T>(copy);
}

}  // namespace strobe::wire
