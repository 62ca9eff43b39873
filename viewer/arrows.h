// Arrows between events that touch a window.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "viewer/loaded_run.h"

namespace strobe::viewer {

// An event, as the page names it.
struct EventRef {
  std::uint32_t row = 0, track = 0, ordinal = 0;
  std::int64_t begin_ps = 0, duration_ps = 0;  // On the run's clock.
  std::string_view name{};
};

// `track`: of the worker's index. Refers to the run.
EventRef ReferTo(const LoadedRun& run, std::uint32_t worker, std::uint32_t track,
                 std::uint32_t ordinal);

struct Arrow {
  EventRef from{}, to{};
};

struct ArrowRequest {
  std::vector<std::uint32_t> rows{};
  std::int64_t begin_ps = 0, end_ps = 0;
  std::uint32_t limit = 1000;
};

struct Arrows {
  std::uint64_t total = 0;  // Of which as many as the limit are told, evenly picked.
  std::vector<Arrow> arrows{};
};

// Those with an end on one of the rows and in the window.
Arrows FindArrows(const LoadedRun& run, const ArrowRequest& request);

// Those of one event.
std::vector<Arrow> ArrowsOf(const LoadedRun& run, std::uint32_t row, std::uint32_t track,
                            std::uint32_t ordinal, std::size_t limit);

}  // namespace strobe::viewer
