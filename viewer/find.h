// Events by their names: all workers, the whole trace.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "viewer/loaded_run.h"

namespace strobe::viewer {

struct FindRequest {
  std::string text{};  // Empty: all events.
  bool regex = false;  // RE2's syntax; else a part of the name.
  bool match_case = false;
  std::int64_t from_ps = 0;  // On the run's clock.
  bool backwards = false;    // What begins before `from_ps`, nearest first.
  std::uint32_t limit = 100;
  std::vector<std::uint32_t> rows{};  // Only on these; empty = on all.
};

struct Hit {
  std::uint32_t row = 0, track = 0, ordinal = 0;  // Of the run; within the row; on the track.
  std::int64_t begin_ps = 0, duration_ps = 0;     // On the run's clock.
  std::string_view name{};
};

struct Found {
  std::uint64_t total = 0;                // Events in the whole run whose name matches.
  std::vector<std::string_view> names{};  // The matching names, most events first.
  std::vector<Hit> hits{};                // From `from_ps` on, in the order of their begins.
};

// InvalidArgument for a pattern that is none. Refers to the run.
absl::StatusOr<Found> FindEvents(const LoadedRun& run, const FindRequest& request);

}  // namespace strobe::viewer
