// What a window of time looks like at one zoom. Nothing is left out: the counts of a window's items
// add up to the events that lie in it.
#pragma once
#include <cstdint>
#include <vector>

#include "collector/index/index.h"

namespace strobe::index {

struct Item {
  std::int64_t begin_ps = 0, end_ps = 0;
  std::uint32_t name = 0;  // Of the event; of the longest, when there are several.
  std::uint32_t count = 0;
  std::uint32_t ordinal = 0;  // Of the same event.
  float busy = 1;             // Of several: how much of the slot they fill, 0 to 1.
};

struct Window {
  std::int64_t begin_ps = 0, end_ps = 0;  // Multiples of the slot.
  std::uint32_t level = 0;                // A slot is 2^level ps; at most kCoarsest.
};

// In the order of begins. One event: where it lies, also when it reaches into the window from
// before or out of it. Several that begin in one slot: the slot, but those at least as long as a
// slot are items of their own.
std::vector<Item> Look(const Index& index, const Track& track, const Window& window);

struct Sample {
  std::int64_t at_ps = 0;
  double least = 0, most = 0, last = 0;
  std::uint32_t count = 0;
};

// A counter's values by slot, the one that holds at the window's begin first.
std::vector<Sample> LookAtValues(const Index& index, const Track& track, const Window& window);

}  // namespace strobe::index
