// The clock of ring files, signed, for differences.
#pragma once
#include <cstdint>

#include "agent/wire/ticks.h"

namespace strobe {

// Nanoseconds of CLOCK_MONOTONIC.
inline std::int64_t MonotonicNow() { return static_cast<std::int64_t>(wire::MonotonicNs()); }

}  // namespace strobe
