// Reads events of a loaded run from the bytes that its index refers to.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "absl/status/statusor.h"
#include "collector/trace/tally/tally.h"
#include "viewer/run/loaded_run.h"

namespace strobe::viewer {

// The plane whose metadata describes a row's events, and the bytes that they lie in: the trace or,
// for derived lines, the index.
struct EventSource {
  const xplane::Plane* plane = nullptr;  // Without its lines; it belongs to the run.
  std::string_view bytes{};
  std::uint64_t first_place = 0;  // The place of bytes[0].

  // The event's bytes, which begin at `place` (see Entry). DataLoss when there cannot be any.
  absl::StatusOr<std::string_view> At(std::uint64_t place) const;
};

// DataLoss when the index does not fit the trace.
absl::StatusOr<EventSource> SourceOf(const LoadedRun& run, const RowRef& row);

// A worker as the tally reads it. It must outlive the result.
inline tally::Source TallySourceOf(const Worker& worker,
                                   const std::function<bool()>& is_gone = nullptr) {
  return {.index = &worker.index(),
          .space = &worker.files->space,
          .derived = &worker.files->derived,
          .trace = worker.files->trace.bytes(),
          .is_gone = is_gone};
}

}  // namespace strobe::viewer
