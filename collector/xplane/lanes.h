// Events of one line in the order of their times, each with the lane in which it nests.
#pragma once
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/xplane/space.h"

namespace strobe::xplane {

// A file in which all overlaps all must not cost the square of its events; what is beyond shares
// the last lane.
inline constexpr std::uint32_t kMaxLanes = 1024;

struct Placed {
  std::int64_t begin_ps = 0, end_ps = 0;  // From the trace's zero.
  // Lanes from 0, at most kMaxLanes: within one, two events nest or lie apart. Most lines need
  // one.
  std::uint32_t lane = 0;
  std::uint32_t depth = 0;  // Events of the lane around it.
  Event event{};
};

// Begin ascending, longer ones first, else in the order of the file. Aggregated events, which have
// no time, are left out. A negative duration counts as 0.
absl::StatusOr<std::vector<Placed>> PlaceEvents(const Line& line);
// The same into a vector that was used before, whose memory is used again.
absl::Status PlaceEvents(const Line& line, std::vector<Placed>& placed);

}  // namespace strobe::xplane
