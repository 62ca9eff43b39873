// How often and for how long each kind of event ran.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/xplane/space.h"

namespace strobe {

struct EventStats {
  std::string_view name{};
  std::uint64_t count = 0;
  // Picoseconds. Self is total less what ran inside, on the same line.
  std::int64_t total_ps = 0, self_ps = 0, min_ps = 0, max_ps = 0;
};

struct PlaneStats {
  std::string_view plane{};
  std::uint64_t events = 0;
  std::int64_t begin_ps = 0, end_ps = 0;  // Of its first and last event, from the trace's zero.
  std::vector<EventStats> kinds{};        // Most self time first.
};

// Of one plane.
absl::StatusOr<PlaneStats> ComputeStats(const xplane::Plane& plane);

}  // namespace strobe
