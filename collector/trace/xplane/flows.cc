#include "collector/trace/xplane/flows.h"

#include <algorithm>
#include <functional>

#include "collector/trace/xplane/names.h"

namespace strobe::xplane {

std::uint64_t ProcessOf(std::string_view plane) {
  // Traces that were merged twice have two names in brackets, which together name the process.
  const std::size_t open = plane.find(" [");
  if (open == std::string_view::npos || !plane.ends_with(']')) return 0;
  // Uses bits above those of most ids.
  return std::hash<std::string_view>()(plane.substr(open)) << 40;
}

FlowReader::FlowReader(const Plane& plane, std::size_t trace)
    : owner_(ProcessOf(plane.name) ^ std::uint64_t{trace} * 0x9e3779b97f4a7c15),
      ids_{plane.StatId("_pt"), plane.StatId("_p"),   plane.StatId("_ct"),
           plane.StatId("_c"),  plane.StatId("flow"), plane.StatId("correlation_id")},
      device_(!MayHaveThreads(plane.name)),
      any_(std::any_of(ids_.begin(), ids_.end(), [](std::int64_t id) { return id != 0; })) {
  kinds_.fill(kOther);
  for (std::size_t i = 0; i < ids_.size(); ++i) {
    const std::int64_t id = ids_[i];
    if (id > 0 && id < static_cast<std::int64_t>(kFewNames))
      kinds_[static_cast<std::size_t>(id)] = static_cast<Kind>(i);
  }
}

}  // namespace strobe::xplane
