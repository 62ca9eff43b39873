// Sorts the events of a line by time and assigns each to a lane in which events nest.
#pragma once
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/trace/xplane/space.h"

namespace strobe::xplane {

// The limit on lanes keeps the assignment fast even if every event overlaps every other one. Events
// that fit into no lane share the last one.
inline constexpr std::uint32_t kMaxLanes = 1024;

struct Placed {
  std::int64_t begin_ps = 0, end_ps = 0;  // In picoseconds from the trace's time zero.
  // The lane, below kMaxLanes. Two events in a lane nest or do not overlap. Most lines need one
  // lane.
  std::uint32_t lane = 0;
  std::uint32_t depth = 0;  // The number of events in the lane that contain this one.
  Event event{};
};

// Returns the events sorted by begin; of equal begins, longer events first, then in file order.
// Aggregated events, which have no time, are left out. A negative duration counts as 0.
absl::StatusOr<std::vector<Placed>> PlaceEvents(const Line& line);
// Like PlaceEvents(line), reusing the memory of `placed`.
absl::Status PlaceEvents(const Line& line, std::vector<Placed>& placed);

}  // namespace strobe::xplane
