#include "collector/trace/xplane/summary.h"

#include <algorithm>

#include "collector/trace/xplane/names.h"
#include "collector/trace/xplane/space.h"
#include "common/base/status_macros.h"

namespace strobe::xplane {
namespace {

struct Times {
  std::int64_t zero = 0, started = 0, stopped = 0;
};

absl::StatusOr<Times> ReadTimes(const Plane& environment) {
  Times times;
  RETURN_IF_ERROR(environment.ForEachStat([&](const Stat& stat) {
    const std::string_view name = environment.NameOf(stat);
    const std::int64_t value = stat.Integer().value_or(0);
    if (name == kProfileStart) times.zero = value;
    if (name == kRecordingStart) times.started = value;
    if (name == kProfileStop) times.stopped = value;
  }));
  if (times.started == 0) times.started = times.zero;
  return times;
}

// A joined trace has one such plane per process, with the process's name appended.
bool IsEnvironment(const Plane& plane) { return plane.name.starts_with(kTaskEnvironmentPlane); }

// The earlier of the two times; 0 means not known.
std::int64_t Earlier(std::int64_t a, std::int64_t b) {
  return a == 0 ? b : b == 0 ? a : std::min(a, b);
}

}  // namespace

absl::StatusOr<TraceSummary> Summarize(std::string_view xspace, std::uint64_t max_memory) {
  ASSIGN_OR_RETURN(const Space space, Space::Read(xspace, Depth::kLines, max_memory));
  return Summarize(space);
}

absl::StatusOr<TraceSummary> Summarize(const Space& space) {
  TraceSummary summary;
  for (const Plane& plane : space.planes) {
    if (IsEnvironment(plane)) {
      ASSIGN_OR_RETURN(const Times times, ReadTimes(plane));
      summary.started_ns = std::max(summary.started_ns, times.started);
      summary.stopped_ns = Earlier(summary.stopped_ns, times.stopped);
    }
    PlaneSummary& added = summary.planes.emplace_back(
        PlaneSummary{std::string(plane.name), plane.lines.size(), plane.events()});
    for (const Line& line : plane.lines) {
      if (line.name == kCounterLine) added.values += line.events;
    }
    summary.events += added.events;
  }
  summary.errors.assign(space.errors.begin(), space.errors.end());
  summary.warnings.assign(space.warnings.begin(), space.warnings.end());
  summary.hostnames.assign(space.hostnames.begin(), space.hostnames.end());
  return summary;
}

absl::StatusOr<std::int64_t> TimeZero(std::string_view xspace) {
  ASSIGN_OR_RETURN(const Space space, Space::Read(xspace));
  return TimeZero(space);
}

absl::StatusOr<std::int64_t> TimeZero(const Space& space) {
  std::int64_t zero = 0;
  for (const Plane& plane : space.planes) {
    if (!IsEnvironment(plane)) continue;
    ASSIGN_OR_RETURN(const Times times, ReadTimes(plane));
    zero = Earlier(zero, times.zero);
  }
  return zero;
}

}  // namespace strobe::xplane
