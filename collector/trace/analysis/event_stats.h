// Counts and times of each kind of event. A kind is all events of a plane that share a name.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/trace/xplane/space.h"

namespace strobe::analysis {

struct EventStats {
  std::string_view name{};
  std::uint64_t count = 0;  // At most 2^63 - 1.
  // Picoseconds. Self time is the total minus the time of events nested inside, on the same line.
  std::int64_t total_ps = 0, self_ps = 0, min_ps = 0, max_ps = 0;
};

struct PlaneStats {
  std::string_view plane{};
  std::uint64_t events = 0;
  // The earliest begin and the latest end of its events, from the trace's zero.
  std::int64_t begin_ps = 0, end_ps = 0;
  std::vector<EventStats> kinds{};  // The kind with the most self time first.
};

using LinePredicate = std::function<bool(const xplane::Line&)>;

// Computes the statistics of one plane. Kinds are those of the lines of which `has_kinds` is true,
// of all lines if it is empty. Texts refer to the plane's bytes. DataLoss when the plane is
// damaged.
absl::StatusOr<PlaneStats> ComputeStats(const xplane::Plane& plane,
                                        const LinePredicate& has_kinds = {});

}  // namespace strobe::analysis
