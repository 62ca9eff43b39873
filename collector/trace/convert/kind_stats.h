// Stats that a trace stores once per event name and that apply to all events with it. The other
// formats have no place for them, so that every event gets them.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "collector/trace/xplane/space.h"

namespace strobe::convert {

// XProf's name for the argument that holds an event's full name if a shorter one is shown.
inline constexpr std::string_view kLongName = "long_name";

// Calls `visit(const Stat&)` for the stats of a kind and, if a shorter name is shown, for its full
// name, with the name id `long_name_id`. Of two stats with the same name, the last one is visited.
// An event's own stats win over them.
template <typename Visit>
void ForEachStatOfKind(const xplane::Plane& plane, const xplane::EventName& kind,
                       std::int64_t long_name_id, const Visit& visit) {
  std::vector<xplane::Stat> stats;
  if (kind.name != kind.shown() && !kind.name.empty())
    stats.push_back({.name_id = long_name_id, .value = kind.name});
  // A damaged stat of a name tells nothing; the events themselves can be read.
  (void)plane.ForEachKindStat(kind, [&](const xplane::Stat& stat) {
    std::erase_if(stats, [&](const xplane::Stat& s) { return s.name_id == stat.name_id; });
    stats.push_back(stat);
  });
  for (const xplane::Stat& stat : stats) visit(stat);
}

}  // namespace strobe::convert
