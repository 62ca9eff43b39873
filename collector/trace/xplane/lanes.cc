#include "collector/trace/xplane/lanes.h"

#include <algorithm>
#include <limits>

#include "common/base/saturated.h"
#include "common/base/status_macros.h"

namespace strobe::xplane {
namespace {

constexpr std::int64_t kLatest = std::numeric_limits<std::int64_t>::max();

// Saturates on overflow, because the numbers may be hostile.
std::int64_t ToPs(std::int64_t ns) {
  std::int64_t ps = 0;
  if (__builtin_mul_overflow(ns, std::int64_t{1000}, &ps)) return ns > 0 ? kLatest : -kLatest;
  return ps;
}

bool Before(const Placed& a, const Placed& b) {
  return a.begin_ps != b.begin_ps ? a.begin_ps < b.begin_ps : a.end_ps > b.end_ps;
}

}  // namespace

absl::StatusOr<std::vector<Placed>> PlaceEvents(const Line& line) {
  std::vector<Placed> placed;
  RETURN_IF_ERROR(PlaceEvents(line, placed));
  return placed;
}

absl::Status PlaceEvents(const Line& line, std::vector<Placed>& placed) {
  placed.clear();
  placed.reserve(line.events);
  const std::int64_t origin = ToPs(line.timestamp_ns);
  RETURN_IF_ERROR(ForEachEvent(line, [&](const Event& event) {
    if (event.occurrences != 0) return;
    const std::int64_t begin = AddSaturated(origin, event.offset_ps);
    const std::int64_t end = AddSaturated(begin, std::max<std::int64_t>(event.duration_ps, 0));
    placed.push_back({.begin_ps = begin, .end_ps = end, .lane = 0, .depth = 0, .event = event});
  }));
  if (!std::is_sorted(placed.begin(), placed.end(), Before))
    std::stable_sort(placed.begin(), placed.end(), Before);

  // Per lane, the ends of the open events, outermost first.
  std::vector<std::vector<std::int64_t>> open(1);
  for (Placed& event : placed) {
    for (std::uint32_t lane = 0;; ++lane) {
      if (lane == open.size()) open.emplace_back();
      std::vector<std::int64_t>& ends = open[lane];
      // An event of length 0 ends where it begins and contains no other event that begins there.
      while (!ends.empty() && ends.back() <= event.begin_ps) ends.pop_back();
      const bool fits = ends.empty() || ends.back() >= event.end_ps;
      if (!fits && lane + 1 < kMaxLanes) continue;
      event.lane = lane;
      event.depth = static_cast<std::uint32_t>(ends.size());
      ends.push_back(event.end_ps);
      break;
    }
  }
  return absl::OkStatus();
}

}  // namespace strobe::xplane
