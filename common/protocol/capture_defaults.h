// Numbers that the operator, the sidecar and the `strobe` command must agree on.
#pragma once
#include <chrono>
#include <cstdint>

#include "common/base/clock.h"

namespace strobe {

// A capture stops itself when the trainer uses this many percent of a memory limit. A trainer that
// fills its memory by design stays below it. The schema in helm/strobe/crds has the same default.
inline constexpr std::uint32_t kDefaultAbortMemoryPercent = 95;

// How long before the start a sidecar sends its request to a stock profiler server. The server must
// have the request in time even on a busy machine, but it cannot be cancelled once it has it. The
// operator assumes this lead for sidecars that do not report their own.
inline constexpr Nanos kProfilerSendAhead = std::chrono::milliseconds(250);

// A busy machine may slow a program down while the pace of its steps is measured. Later steps may
// then take as little as this share of the measured time.
inline constexpr double kFastestPace = 0.25;

// How far before its start a capture may reach back.
inline constexpr Nanos kMaxLookBack = std::chrono::minutes(10);

// The bounds of what a capture may allow as the pause of programs while their recording ends.
inline constexpr Nanos kLeastPause = std::chrono::milliseconds(1),
                       kLongestPause = std::chrono::minutes(10);

}  // namespace strobe
