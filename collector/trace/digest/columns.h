// The lists of a digest as columns of integers, for encoding and decoding. The field numbers are
// those of strobe/v1/digest.proto.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "collector/trace/digest/digest.h"
#include "common/base/saturated.h"

namespace strobe::digest {

enum class Coding : std::uint8_t {
  kDelta,     // Minus the value of the row before, with the sign in the lowest bit.
  kSigned,    // With the sign in the lowest bit.
  kDuration,  // Not negative.
  kAny,       // Any number of 64 bits.
  kSmall,     // A number of 32 bits.
  kFlag,
};

template <typename Row>
struct Column {
  std::uint32_t field = 0;
  Coding coding{};
  std::int64_t (*get)(const Row&) = nullptr;
  // Columns are set in their order, so that one may count from another.
  void (*set)(Row&, std::int64_t) = nullptr;
};

// A column for a member of its own.
template <typename Row, auto Member>
constexpr Column<Row> ColumnOf(std::uint32_t field, Coding coding) {
  return {field, coding, [](const Row& row) { return static_cast<std::int64_t>(row.*Member); },
          [](Row& row, std::int64_t value) {
            using Type = std::remove_reference_t<decltype(row.*Member)>;
            row.*Member = static_cast<Type>(value);
          }};
}
template <auto Member>
constexpr Column<Step> TimeColumn(std::uint32_t field) {
  return {field, Coding::kDuration, [](const Step& row) { return row.time.*Member; },
          [](Step& row, std::int64_t value) { row.time.*Member = value; }};
}
template <auto Member>
constexpr Column<Step> HostColumn(std::uint32_t field) {
  return {field, Coding::kDuration, [](const Step& row) { return row.host.*Member; },
          [](Step& row, std::int64_t value) { row.host.*Member = value; }};
}
template <auto Member>
constexpr Column<Step> BatchColumn(std::uint32_t field) {
  return {field, Coding::kDuration, [](const Step& row) { return row.batch.*Member; },
          [](Step& row, std::int64_t value) { row.batch.*Member = value; }};
}
// The column of end_ns, as the length from begin_ns.
template <typename Row>
constexpr Column<Row> LengthColumn(std::uint32_t field) {
  return {field, Coding::kDuration, [](const Row& row) { return row.end_ns - row.begin_ns; },
          [](Row& row, std::int64_t value) { row.end_ns = AddSaturated(row.begin_ns, value); }};
}

inline constexpr std::array<Column<Step>, 22> kStepColumns = {{
    ColumnOf<Step, &Step::loop>(1, Coding::kSmall),
    ColumnOf<Step, &Step::number>(2, Coding::kDelta),
    ColumnOf<Step, &Step::begin_ns>(3, Coding::kDelta),
    LengthColumn<Step>(4),
    ColumnOf<Step, &Step::followed>(5, Coding::kFlag),
    {6, Coding::kSigned, [](const Step& row) { return row.annotation_end_ns - row.end_ns; },
     [](Step& row, std::int64_t value) {
       row.annotation_end_ns = AddSaturated(row.end_ns, value);
     }},
    TimeColumn<&Breakdown::span_ns>(7),
    TimeColumn<&Breakdown::compute_ns>(8),
    TimeColumn<&Breakdown::communication_ns>(9),
    TimeColumn<&Breakdown::exposed_communication_ns>(10),
    TimeColumn<&Breakdown::copies_ns>(11),
    TimeColumn<&Breakdown::exposed_copies_ns>(12),
    TimeColumn<&Breakdown::idle_ns>(13),
    HostColumn<&HostTime::input_ns>(14),
    HostColumn<&HostTime::input_stall_ns>(15),
    HostColumn<&HostTime::garbage_collection_ns>(16),
    HostColumn<&HostTime::host_bound_ns>(17),
    BatchColumn<&Batch::prefill_requests>(18),
    BatchColumn<&Batch::prefill_tokens>(19),
    BatchColumn<&Batch::decode_requests>(20),
    BatchColumn<&Batch::decode_tokens>(21),
    // Plus 1, so that "not told" is 0.
    {22, Coding::kDuration, [](const Step& row) { return row.batch.running_before + 1; },
     [](Step& row, std::int64_t value) { row.batch.running_before = value - 1; }},
}};

inline constexpr std::array<Column<Collective>, 9> kCollectiveColumns = {{
    ColumnOf<Collective, &Collective::communicator>(1, Coding::kSmall),
    ColumnOf<Collective, &Collective::name>(2, Coding::kSmall),
    ColumnOf<Collective, &Collective::ordinal>(3, Coding::kSmall),
    // Plus 1, so that kNoDevice is 0.
    {4, Coding::kSmall, [](const Collective& row) { return std::int64_t{row.device + 1u}; },
     [](Collective& row, std::int64_t value) {
       row.device = static_cast<std::uint32_t>(value) - 1u;
     }},
    ColumnOf<Collective, &Collective::begin_ns>(5, Coding::kDelta),
    LengthColumn<Collective>(6),
    ColumnOf<Collective, &Collective::bytes>(7, Coding::kAny),
    {8, Coding::kDuration, [](const Collective& row) { return row.sequence + 1; },
     [](Collective& row, std::int64_t value) { row.sequence = value - 1; }},
    ColumnOf<Collective, &Collective::kind>(9, Coding::kSmall),
}};

inline constexpr std::array<Column<Op>, 9> kOpColumns = {{
    ColumnOf<Op, &Op::name>(1, Coding::kSmall),
    ColumnOf<Op, &Op::kind>(2, Coding::kSmall),
    ColumnOf<Op, &Op::count>(3, Coding::kAny),
    ColumnOf<Op, &Op::total_ns>(4, Coding::kDuration),
    ColumnOf<Op, &Op::self_ns>(5, Coding::kDuration),
    ColumnOf<Op, &Op::p50_ns>(6, Coding::kDuration),
    ColumnOf<Op, &Op::p99_ns>(7, Coding::kDuration),
    ColumnOf<Op, &Op::flops>(8, Coding::kAny),
    ColumnOf<Op, &Op::bytes_accessed>(9, Coding::kAny),
}};

inline constexpr std::array<Column<Breakdown>, 7> kBreakdownFields = {{
    ColumnOf<Breakdown, &Breakdown::span_ns>(1, Coding::kDuration),
    ColumnOf<Breakdown, &Breakdown::compute_ns>(2, Coding::kDuration),
    ColumnOf<Breakdown, &Breakdown::communication_ns>(3, Coding::kDuration),
    ColumnOf<Breakdown, &Breakdown::exposed_communication_ns>(4, Coding::kDuration),
    ColumnOf<Breakdown, &Breakdown::copies_ns>(5, Coding::kDuration),
    ColumnOf<Breakdown, &Breakdown::exposed_copies_ns>(6, Coding::kDuration),
    ColumnOf<Breakdown, &Breakdown::idle_ns>(7, Coding::kDuration),
}};

inline constexpr std::array<Column<HostTime>, 4> kHostTimeFields = {{
    ColumnOf<HostTime, &HostTime::input_ns>(1, Coding::kDuration),
    ColumnOf<HostTime, &HostTime::input_stall_ns>(2, Coding::kDuration),
    ColumnOf<HostTime, &HostTime::garbage_collection_ns>(3, Coding::kDuration),
    ColumnOf<HostTime, &HostTime::host_bound_ns>(4, Coding::kDuration),
}};

inline constexpr std::array<Column<Knows>, 7> kKnowsFields = {{
    ColumnOf<Knows, &Knows::device>(1, Coding::kFlag),
    ColumnOf<Knows, &Knows::launches>(2, Coding::kFlag),
    ColumnOf<Knows, &Knows::input>(3, Coding::kFlag),
    ColumnOf<Knows, &Knows::garbage_collection>(4, Coding::kFlag),
    ColumnOf<Knows, &Knows::steps>(5, Coding::kFlag),
    ColumnOf<Knows, &Knows::host_device>(6, Coding::kFlag),
    ColumnOf<Knows, &Knows::device_untold>(7, Coding::kFlag),
}};

inline constexpr std::array<Column<Cuts>, 4> kCutsFields = {{
    ColumnOf<Cuts, &Cuts::steps>(1, Coding::kAny),
    ColumnOf<Cuts, &Cuts::collectives>(2, Coding::kAny),
    ColumnOf<Cuts, &Cuts::ops>(3, Coding::kAny),
    ColumnOf<Cuts, &Cuts::devices>(4, Coding::kAny),
}};

inline constexpr std::array<Column<Device>, 7> kDeviceFields = {{
    ColumnOf<Device, &Device::first_ns>(2, Coding::kSigned),
    ColumnOf<Device, &Device::last_ns>(3, Coding::kSigned),
    ColumnOf<Device, &Device::coarse>(5, Coding::kFlag),
    ColumnOf<Device, &Device::flops>(6, Coding::kAny),
    ColumnOf<Device, &Device::bytes_accessed>(7, Coding::kAny),
    ColumnOf<Device, &Device::peak_flops>(8, Coding::kAny),
    ColumnOf<Device, &Device::peak_bytes>(9, Coding::kAny),
}};

}  // namespace strobe::digest
