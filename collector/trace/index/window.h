// Answers what a track looks like in a window of time at one zoom level. Nothing is left out: the
// counts of the items add up to the number of events in the window.
#pragma once
#include <cstdint>
#include <vector>

#include "collector/trace/index/index.h"

namespace strobe::index {

struct Item {
  std::int64_t begin_ps = 0, end_ps = 0;
  std::uint32_t name = 0;     // The event's name; that of the longest one when there are several.
  std::uint32_t count = 0;    // How many events it stands for.
  std::uint32_t ordinal = 0;  // The ordinal of the event that `name` belongs to.
  float busy = 1;             // How much of the slot the events fill, 0 to 1; 1 for a single event.
};

struct Window {
  std::int64_t begin_ps = 0, end_ps = 0;  // Multiples of the slot's length.
  std::uint32_t level = 0;  // A slot is 2^level ps long; `level` is at most kCoarsest.
};

// The items of a window, in the order of their begins. Events that begin in the same slot become
// one item, which covers the slot; the longest of them is an item of its own when it is at least as
// long as the slot. An item for one event has that event's times, which may exceed the window on
// both sides.
std::vector<Item> Look(const Index& index, const Track& track, const Window& window);

// A counter's values in one slot.
struct Sample {
  std::int64_t at_ps = 0;  // The time of the first value.
  double least = 0, most = 0, last = 0;
  std::uint32_t count = 0;
};

// A counter's samples in a window, in order. The first one is the value that is valid when the
// window begins, if there is one; it is older than the window.
std::vector<Sample> LookAtValues(const Index& index, const Track& track, const Window& window);

}  // namespace strobe::index
