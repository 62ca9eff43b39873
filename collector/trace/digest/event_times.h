// Reads the times and stats of events. The numbers of a trace are not trusted.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "collector/trace/xplane/space.h"
#include "common/base/saturated.h"

namespace strobe::digest {

struct Times {
  std::int64_t begin_ps = 0, end_ps = 0;  // From the trace's zero.
};

// 13 days. Times beyond are cut, so that their sums and differences fit.
inline constexpr std::int64_t kMaxPs = std::int64_t{1} << 60;

inline std::int64_t CutPs(std::int64_t ps) { return std::clamp(ps, -kMaxPs, kMaxPs); }

// Where the line's events count from.
inline std::int64_t OriginOf(const xplane::Line& line) {
  return std::clamp(line.timestamp_ns, -kMaxPs / 1000, kMaxPs / 1000) * 1000;
}

inline Times TimesOf(std::int64_t origin_ps, const xplane::Event& event) {
  const std::int64_t begin = CutPs(AddSaturated(origin_ps, event.offset_ps));
  return {begin, CutPs(AddSaturated(begin, std::max<std::int64_t>(event.duration_ps, 0)))};
}

// A stat as it is encoded.
struct RawStat {
  std::int64_t name_id = 0;
  std::int64_t value = 0;   // An integer's value, or the id of the text that is referred to.
  std::string_view text{};  // A text that is stored with the event.
  bool is_integer = false, is_reference = false;
};

// Reads a stat if `wanted(name id)`, and calls `visit(const RawStat&)`.
template <typename Wanted, typename Visit>
absl::Status ReadRawStat(std::string_view bytes, const Wanted& wanted, const Visit& visit) {
  // Writers put the name first. Most stats are not wanted, and are skipped here.
  if (bytes.size() >= 2 && bytes[0] == 0x08 && static_cast<unsigned char>(bytes[1]) < 0x80 &&
      !wanted(std::int64_t{bytes[1]}))
    return absl::OkStatus();
  RawStat stat;
  wire::Reader fields(bytes);
  while (fields.Next()) {
    switch (fields.field()) {
      case 1:
        stat.name_id = fields.signed_value();
        break;
      case 3:
      case 4:
        stat.value = fields.signed_value();
        stat.is_integer = true;
        break;
      case 5:
        stat.text = fields.bytes();
        break;
      case 7:
        stat.value = fields.signed_value();
        stat.is_reference = true;
        break;
      default:
        break;
    }
  }
  if (fields.status().ok() && wanted(stat.name_id)) visit(stat);
  return fields.status();
}

// Reads an event and its stats that are wanted, in one pass over its bytes. Faster than
// xplane::ForEachStat, because it looks nothing up.
template <typename Wanted, typename Visit>
absl::Status ReadEvent(std::string_view bytes, xplane::Event& event, const Wanted& wanted,
                       const Visit& visit) {
  event.bytes = bytes;
  wire::Reader reader(bytes);
  while (reader.Next()) {
    switch (reader.field()) {
      case 1:
        event.name_id = reader.signed_value();
        break;
      case 2:
        event.offset_ps = reader.signed_value();
        break;
      case 3:
        event.duration_ps = reader.signed_value();
        break;
      case 4:
        if (!reader.is_bytes()) break;
        if (absl::Status status = ReadRawStat(reader.bytes(), wanted, visit); !status.ok())
          return status;
        break;
      case 5:
        event.occurrences = reader.signed_value();
        break;
      default:
        break;
    }
  }
  return reader.status();
}

// The text of a stat; empty if it has none.
inline std::string_view TextOfStat(const xplane::Plane& plane, const RawStat& stat) {
  if (!stat.is_reference) return stat.text;
  const auto found = plane.stat_names.find(stat.value);
  return found == plane.stat_names.end() ? std::string_view() : found->second;
}

}  // namespace strobe::digest
