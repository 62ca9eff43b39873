// A run of two workers with the same steps, of which the second works longer in each.
#pragma once
#include <string>
#include <vector>

#include "collector/trace/xplane/builder.h"
#include "collector/trace/xplane/names.h"
#include "common/base/strings.h"

namespace strobe::viewer {

inline std::string StepsTrace(std::int64_t rank, std::int64_t step_ms, int steps) {
  constexpr std::int64_t kMs = 1'000'000'000;
  xplane::PlaneBuilder host(xplane::kHostPlane);
  host.BeginLine(1, "main", 0);
  for (int step = 0; step < steps; ++step) {
    // Steps vary a little, because equal ones would leave no noise to compare a difference with.
    const std::int64_t begin = step * step_ms * kMs + (step + rank) % 3 * kMs / 10;
    host.AddEvent(host.EventId("train"), begin, (step_ms - 1) * kMs);
    host.AddEventStat(host.StatId("step_num"), static_cast<std::int64_t>(step));
    host.AddEvent(host.EventId("work"), begin, (step_ms - 5) * kMs);
  }
  xplane::PlaneBuilder environment(xplane::kTaskEnvironmentPlane);
  environment.AddPlaneStat(xplane::kProfileStart, std::uint64_t{1'790'000'000'000'000'000});
  xplane::PlaneBuilder strobe(xplane::kStrobePlane);
  strobe.AddPlaneStat("rank", rank);
  return host.Encode() + environment.Encode() + strobe.Encode();
}

inline std::vector<std::string> TwoWorkers(int steps = 8) {
  return {StepsTrace(0, 40, steps), StepsTrace(1, 70, steps)};
}

}  // namespace strobe::viewer
