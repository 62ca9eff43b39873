// Sums of selected events, by worker and name: those in boxes of rows and time, and single ones.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "viewer/run/loaded_run.h"

namespace strobe::viewer {

// The events that touch [begin_ps, end_ps) on tracks `first` to `last` of a row, both included.
struct SelectedBox {
  std::uint32_t row = 0, first = 0, last = 0;
  std::int64_t begin_ps = 0, end_ps = 0;
};

struct SelectedEvent {
  std::uint32_t row = 0, track = 0, ordinal = 0;
};

struct NameSum {
  std::uint32_t worker = 0;
  std::string_view name{};
  std::uint64_t count = 0;
  std::int64_t wall_ps = 0, self_ps = 0;  // Self time: without the events directly inside.
};

struct Selection {
  std::uint64_t count = 0;
  // The earliest begin and the latest end of its events, on the run's clock.
  std::int64_t begin_ps = 0, end_ps = 0;
  std::vector<NameSum> names{};  // Largest self time first.
};

// Sums the events of all boxes and `events`, each with its whole duration. An event that is
// selected several times counts once. `is_gone`, which may be null, is asked between tracks: once
// it is true, others are left out.
Selection SumSelection(const LoadedRun& run, const std::vector<SelectedBox>& boxes,
                       const std::vector<SelectedEvent>& events,
                       const std::function<bool()>& is_gone = nullptr);

// Self time of one event; `track` is a number within the index.
std::int64_t SelfTime(const index::Index& index, std::uint32_t track, const index::Entry& entry);

}  // namespace strobe::viewer
