#include "collector/xplane/flows.h"

#include <algorithm>

#include "collector/xplane/names.h"

namespace strobe::xplane {

FlowReader::FlowReader(const Plane& plane)
    : ids_{plane.StatId("_pt"), plane.StatId("_p"),   plane.StatId("_ct"),
           plane.StatId("_c"),  plane.StatId("flow"), plane.StatId("correlation_id")},
      device_(plane.name.starts_with(kDevicePrefix)),
      any_(std::any_of(ids_.begin(), ids_.end(), [](std::int64_t id) { return id != 0; })) {
  kinds_.fill(kOther);
  for (std::size_t i = 0; i < ids_.size(); ++i) {
    const std::int64_t id = ids_[i];
    if (id > 0 && id < static_cast<std::int64_t>(kFewNames))
      kinds_[static_cast<std::size_t>(id)] = static_cast<Kind>(i);
  }
}

}  // namespace strobe::xplane
