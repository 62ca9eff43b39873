// How busy each part of a whole run is: what the strip above the timeline shows.
#pragma once
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "viewer/run/loaded_run.h"

namespace strobe::viewer {

inline constexpr std::uint32_t kMinActivitySlots = 16, kMaxActivitySlots = 4096;
inline constexpr std::uint32_t kMaxBands = 64;

struct Activity {
  std::int64_t begin_ps = 0;  // When the first slot begins, on the run's clock.
  std::int64_t slot_ps = 1;   // Length of a slot.
  // By band and slot: the share of its time in which the band's rows hold events, from 0 to 255.
  // Not 0 where a row holds any. A band is a section, or several neighbours when there are more
  // sections than bands.
  std::vector<std::vector<std::uint32_t>> bands{};
  // By band: the first and the last worker of its rows.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> workers{};
};

// At most `slots` slots (from kMinActivitySlots on) and `bands` bands. Counters are left out.
// `is_gone`, which may be null, is asked between rows: once it is true, others are left out too.
Activity ActivityOf(const LoadedRun& run, std::uint32_t slots, std::uint32_t bands,
                    const std::function<bool()>& is_gone = nullptr);

}  // namespace strobe::viewer
