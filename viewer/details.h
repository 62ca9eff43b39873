// All that a trace knows about one event.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "viewer/loaded_run.h"

namespace strobe::viewer {

// JSON: where it lies, its times and self time, all arguments of the event and of its kind, what
// stands around it, arrows, and the XLA module and step that ran then on the same device. NotFound
// when there is no such event.
absl::StatusOr<std::string> EventDetails(const LoadedRun& run, std::uint32_t row,
                                         std::uint32_t track, std::uint32_t ordinal);

// Number of the event of a track that lies at a time, or the longest that begins within `slop`
// after; none when nothing does.
std::optional<std::uint32_t> EventAt(const LoadedRun& run, std::uint32_t row, std::uint32_t track,
                                     std::int64_t at_ps, std::int64_t slop_ps);

}  // namespace strobe::viewer
