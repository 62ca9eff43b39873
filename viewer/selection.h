// What lies in a box of rows and time, by name.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "viewer/loaded_run.h"

namespace strobe::viewer {

// Tracks [first, last] of a row.
struct TrackRange {
  std::uint32_t row = 0, first = 0, last = 0;
};

struct NameSum {
  std::string_view name{};
  std::uint64_t count = 0;
  std::int64_t wall_ps = 0, self_ps = 0;  // Self: less what ran inside, one depth further in.
};

struct Selection {
  std::uint64_t count = 0;
  std::int64_t begin_ps = 0, end_ps = 0;  // Of the first and the last event.
  std::vector<NameSum> names{};           // Most self time first.
};

// Of the events that touch the window, whole.
Selection SumSelection(const LoadedRun& run, const std::vector<TrackRange>& tracks,
                       std::int64_t begin_ps, std::int64_t end_ps);

// Of one event.
std::int64_t SelfTime(const index::Index& index, std::uint32_t track, const index::Entry& entry);

}  // namespace strobe::viewer
