// Reads the times and stats of events. The numbers of a trace are not trusted.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "collector/xplane/space.h"
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
  std::int64_t value = 0;   // Of an integer; of a reference to a text, its id.
  std::string_view text{};  // Of a text that is stored with the event.
  bool is_integer = false, is_reference = false;
};

// Calls `visit(const RawStat&)` for every stat. Faster than xplane::ForEachStat, because it looks
// nothing up.
template <typename Visit>
absl::Status ScanStats(std::string_view event, const Visit& visit) {
  wire::Reader reader(event);
  while (reader.Next()) {
    if (reader.field() != 4 || !reader.is_bytes()) continue;
    RawStat stat;
    wire::Reader fields(reader.bytes());
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
    if (!fields.status().ok()) return fields.status();
    visit(stat);
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
