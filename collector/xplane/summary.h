// What one pass over an XSpace tells about a capture, without parsing its events into objects.
#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/xplane/space.h"

namespace strobe::xplane {

struct PlaneSummary {
  std::string name;
  std::uint64_t lines = 0;
  std::uint64_t events = 0;
};

struct TraceSummary {
  std::vector<PlaneSummary> planes;
  std::uint64_t events = 0;  // On all planes.
  // Unix nanoseconds on the recording machine's clock, 0 = the trace does not say. When several
  // processes were joined: the latest start and the earliest stop, so that what lies between was
  // recorded by all.
  std::int64_t started_ns = 0;
  std::int64_t stopped_ns = 0;
  std::vector<std::string> hostnames, errors, warnings;
};

// DataLoss when the bytes are no XSpace, ResourceExhausted when reading them takes more than
// `most_memory`. Unknown fields are skipped.
absl::StatusOr<TraceSummary> Summarize(
    std::string_view xspace, std::uint64_t most_memory = std::numeric_limits<std::uint64_t>::max());
absl::StatusOr<TraceSummary> Summarize(const Space& space);

// From when on the lines' time stamps count, in Unix nanoseconds: the profiler's start, the
// earliest one when several processes were joined; 0 = the trace does not say.
absl::StatusOr<std::int64_t> TimeZero(std::string_view xspace);
absl::StatusOr<std::int64_t> TimeZero(const Space& space);

}  // namespace strobe::xplane
