#include "collector/xplane/flows.h"

#include <algorithm>

#include "collector/xplane/names.h"

namespace strobe::xplane {

FlowReader::FlowReader(const Plane& plane)
    : ids_{plane.StatId("_pt"), plane.StatId("_p"),   plane.StatId("_ct"),
           plane.StatId("_c"),  plane.StatId("flow"), plane.StatId("correlation_id")},
      device_(plane.name.starts_with(kDevicePrefix)),
      any_(std::any_of(ids_.begin(), ids_.end(), [](std::int64_t id) { return id != 0; })) {}

}  // namespace strobe::xplane
