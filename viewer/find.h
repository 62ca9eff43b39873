// Finds events by name on all workers.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "viewer/loaded_run.h"

namespace strobe::viewer {

struct FindRequest {
  std::string text{};  // Empty matches every name.
  bool regex = false;  // `text` is in RE2's syntax; else it is a part of the name.
  bool match_case = false;
  std::int64_t from_ps = 0;  // On the run's clock.
  // False: events that begin at `from_ps` or later, earliest first. True: events that begin before
  // it, latest first.
  bool backwards = false;
  std::uint32_t limit = 100;
  std::vector<std::uint32_t> rows{};  // Empty: all rows.
};

struct Hit {
  std::uint32_t row = 0, track = 0, ordinal = 0;  // As in EventRef (arrows.h).
  std::int64_t begin_ps = 0, duration_ps = 0;     // On the run's clock.
  std::string_view name{};
};

struct Found {
  std::uint64_t total = 0;                // Events in the whole run whose name matches.
  std::vector<std::string_view> names{};  // The matching names, most events first.
  std::vector<Hit> hits{};                // At most `limit`, in the order of the request.
};

// InvalidArgument when `text` is not a regular expression. The names point into the run.
absl::StatusOr<Found> FindEvents(const LoadedRun& run, const FindRequest& request);

}  // namespace strobe::viewer
