// Reads the plane with the collectives that a program told itself, through its library's profiler
// plugin. It tells of them without a profiler of the devices.
#pragma once
#include <set>
#include <string_view>

#include "absl/status/status.h"
#include "collector/trace/digest/host_events.h"
#include "collector/trace/xplane/space.h"

namespace strobe::digest {

// Which lines of xplane::kCollectivesPlane tell of collectives. Where the devices' times of a group
// were measured, its line of calls tells the same again.
class CollectiveLines {
 public:
  // The plane's names must outlive this.
  explicit CollectiveLines(const xplane::Plane& plane);

  // Whether a line has the devices' times.
  static bool IsMeasured(std::string_view line);
  bool Count(std::string_view line) const { return !repeated_.contains(line); }

 private:
  std::set<std::string_view> repeated_{};
};

// Adds the collectives of xplane::kCollectivesPlane, of the lines that count. Sends and receives
// are left out, because each side has calls of its own.
absl::Status ReadCollectiveRows(const xplane::Plane& plane, Gathered& gathered);

}  // namespace strobe::digest
