// Reads the plane with the collectives that a program told itself, through its library's profiler
// plugin. It tells of them without a profiler of the devices.
#pragma once
#include "absl/status/status.h"
#include "collector/trace/digest/host_events.h"
#include "collector/trace/xplane/space.h"

namespace strobe::digest {

// Adds the collectives of xplane::kCollectivesPlane: at the devices' times if they were measured,
// and otherwise when the program called them. Sends and receives are left out, because each side
// has calls of its own.
absl::Status ReadCollectiveRows(const xplane::Plane& plane, Gathered& gathered);

}  // namespace strobe::digest
