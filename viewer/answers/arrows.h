// Arrows of one event: from what launched work to the work. Those of a window are in
// arrow_bundles.h.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "viewer/run/loaded_run.h"

namespace strobe::viewer {

// An event as the page names it: track within the row, ordinal on the track.
struct EventRef {
  std::uint32_t row = 0, track = 0, ordinal = 0;
  std::int64_t begin_ps = 0, duration_ps = 0;  // On the run's clock.
  std::string_view name{};
};

// `track` is a number within the worker's index. The name points into the run.
EventRef ReferTo(const LoadedRun& run, std::uint32_t worker, std::uint32_t track,
                 std::uint32_t ordinal);

struct Arrow {
  EventRef from{}, to{};
};

// The arrows that begin or end at one event, at most `limit`.
std::vector<Arrow> ArrowsOf(const LoadedRun& run, std::uint32_t row, std::uint32_t track,
                            std::uint32_t ordinal, std::size_t limit);

}  // namespace strobe::viewer
