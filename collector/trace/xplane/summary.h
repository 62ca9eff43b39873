// Summarizes an XSpace in one pass, without converting its events to objects.
#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/trace/xplane/space.h"

namespace strobe::xplane {

struct PlaneSummary {
  std::string name;
  std::uint64_t lines = 0;
  std::uint64_t events = 0;
  std::uint64_t values = 0;  // The events that are values of counters: nothing ran then.
};

struct TraceSummary {
  std::vector<PlaneSummary> planes;
  std::uint64_t events = 0;  // The number of events on all planes.
  // Unix nanoseconds on the recording machine's clock; 0 if the trace has no such time. For joined
  // traces of several processes: the latest start and the earliest stop, between which all of them
  // recorded.
  std::int64_t started_ns = 0;
  std::int64_t stopped_ns = 0;
  std::vector<std::string> hostnames, errors, warnings;
};

// DataLoss if the bytes are not an XSpace; ResourceExhausted if reading them takes more than
// `max_memory` bytes. Unknown fields are skipped.
absl::StatusOr<TraceSummary> Summarize(
    std::string_view xspace, std::uint64_t max_memory = std::numeric_limits<std::uint64_t>::max());
absl::StatusOr<TraceSummary> Summarize(const Space& space);

// The time from which the lines' time stamps count, in Unix nanoseconds: the profiler's start, or
// the earliest one for joined traces; 0 if the trace has no such time.
absl::StatusOr<std::int64_t> TimeZero(std::string_view xspace);
absl::StatusOr<std::int64_t> TimeZero(const Space& space);

}  // namespace strobe::xplane
