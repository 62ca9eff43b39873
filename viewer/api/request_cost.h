// Judges how much an answer may take before it is made. Pure.
#pragma once
#include <cstdint>
#include <limits>
#include <string_view>

#include "common/http/query.h"
#include "viewer/run/loaded_run.h"

namespace strobe::viewer {

// Answers that may cost more take turns with others that do. The unit is about the visit of an
// event of an index, some tens of nanoseconds. The tiles of a page cost less: it asks for 256 rows
// with 512 slots at once.
inline constexpr std::uint64_t kShortCost = 1'100'000;
inline constexpr std::uint64_t kUnboundedCost = std::numeric_limits<std::uint64_t>::max();

// The most that the answer at this path of a RunApi may cost. What needs the run is judged as for
// the largest one if `run` is null, so that the answer tells nothing of a run that the asker may
// not see.
std::uint64_t CostOf(std::string_view path, const http::Query& query, const LoadedRun* run);

}  // namespace strobe::viewer
