#include "collector/trace/analysis/event_stats.h"

#include <algorithm>
#include <limits>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "collector/trace/xplane/lanes.h"
#include "common/base/saturated.h"
#include "common/base/status_macros.h"

namespace strobe::analysis {
namespace {

using xplane::Placed;
using Kinds = absl::flat_hash_map<std::int64_t, EventStats>;

// Adds events; neither their number nor their times overflow, whatever a trace claims.
void Add(std::uint64_t count, std::int64_t total_ps, std::int64_t self_ps, EventStats& stats) {
  constexpr std::uint64_t kMaxCount = std::numeric_limits<std::int64_t>::max();
  stats.count += std::min(count, kMaxCount - stats.count);
  stats.total_ps = AddSaturated(stats.total_ps, total_ps);
  stats.self_ps = AddSaturated(stats.self_ps, self_ps);
}

void Count(const xplane::Plane& plane, const Placed& event, std::int64_t self_ps, Kinds& kinds) {
  const std::int64_t length = event.end_ps - event.begin_ps;
  auto [it, fresh] = kinds.try_emplace(event.event.name_id);
  EventStats& stats = it->second;
  if (fresh) {
    stats.name = plane.NameOf(event.event);
    stats.min_ps = length;
  }
  Add(1, length, self_ps, stats);
  stats.min_ps = std::min(stats.min_ps, length);
  stats.max_ps = std::max(stats.max_ps, length);
}

// Adds a line's events to the kinds. A stack of open events per lane tells how much time ran inside
// each of them.
void CountLine(const xplane::Plane& plane, const std::vector<Placed>& events, Kinds& kinds) {
  struct Open {
    const Placed* event;
    std::int64_t inside_ps;
  };
  std::vector<std::vector<Open>> lanes;
  const auto close = [&](std::vector<Open>& lane) {
    const Open open = lane.back();
    lane.pop_back();
    const std::int64_t length = open.event->end_ps - open.event->begin_ps;
    Count(plane, *open.event, std::max<std::int64_t>(length - open.inside_ps, 0), kinds);
    if (!lane.empty()) lane.back().inside_ps = AddSaturated(lane.back().inside_ps, length);
  };
  for (const Placed& event : events) {
    if (event.lane >= lanes.size()) lanes.resize(event.lane + 1);
    std::vector<Open>& lane = lanes[event.lane];
    while (lane.size() > event.depth) close(lane);
    lane.push_back({&event, 0});
  }
  for (std::vector<Open>& lane : lanes) {
    while (!lane.empty()) close(lane);
  }
}

}  // namespace

absl::StatusOr<PlaneStats> ComputeStats(const xplane::Plane& plane,
                                        const LinePredicate& has_kinds) {
  PlaneStats stats{.plane = plane.name};
  Kinds kinds;
  for (const xplane::Line& line : plane.lines) {
    ASSIGN_OR_RETURN(const std::vector<Placed> events, xplane::PlaceEvents(line));
    for (const Placed& event : events) {
      const bool first = stats.events++ == 0;
      stats.begin_ps = first ? event.begin_ps : std::min(stats.begin_ps, event.begin_ps);
      stats.end_ps = first ? event.end_ps : std::max(stats.end_ps, event.end_ps);
    }
    if (has_kinds && !has_kinds(line)) continue;
    CountLine(plane, events, kinds);
    // Some profilers write one aggregated event with a number of occurrences instead of single
    // ones.
    RETURN_IF_ERROR(xplane::ForEachEvent(line, [&](const xplane::Event& event) {
      if (event.occurrences <= 0) return;
      auto [it, fresh] = kinds.try_emplace(event.name_id);
      if (fresh) it->second.name = plane.NameOf(event);
      Add(static_cast<std::uint64_t>(event.occurrences), event.duration_ps, event.duration_ps,
          it->second);
    }));
  }
  // By id, because the order of the hash is random, and several ids may have one name.
  const std::map<std::int64_t, EventStats> by_id(kinds.begin(), kinds.end());
  for (const auto& [id, kind] : by_id) stats.kinds.push_back(kind);
  std::sort(stats.kinds.begin(), stats.kinds.end(), [](const EventStats& a, const EventStats& b) {
    return a.self_ps != b.self_ps ? a.self_ps > b.self_ps : a.name < b.name;
  });
  return stats;
}

}  // namespace strobe::analysis
