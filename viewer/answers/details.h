// Everything a trace knows about one event.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "viewer/run/loaded_run.h"

namespace strobe::viewer {

// JSON: where the event lies, its times and self time, its arguments, the event around it
// (`parent`), how it came to run (`chain`, `forward`, `graph`, `captured`; see launch_chain.h), its
// HLO instruction (`hlo`), the XLA module and the step that ran at its middle on the same device,
// and the events at the other ends of its arrows (`in`, `out`). `track` counts within the row.
// NotFound when there is no such event, DataLoss when the trace is damaged.
absl::StatusOr<std::string> EventDetails(const LoadedRun& run, std::uint32_t row,
                                         std::uint32_t track, std::uint32_t ordinal);

// Which event EventAt prefers.
enum class Prefer {
  kLongest,  // The longest one.
  kHere,     // The longest that runs at the time; if there is none, the next one to begin.
};

// Ordinal of an event of a track that runs at `at_ps` or begins at most `slop_ps` later, on the
// run's clock; none when there is no such event.
std::optional<std::uint32_t> EventAt(const LoadedRun& run, std::uint32_t row, std::uint32_t track,
                                     std::int64_t at_ps, std::int64_t slop_ps,
                                     Prefer prefer = Prefer::kLongest);

}  // namespace strobe::viewer
