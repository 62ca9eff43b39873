#include "viewer/loaded_run.h"

#include <gmock/gmock.h>

#include "collector/xplane/builder.h"
#include "collector/xplane/names.h"
#include "tests/unit/viewer/made_run.h"

namespace strobe::viewer {
namespace {

// A trace of one event, whose profiler started at a Unix time.
std::string StartedAt(std::int64_t zero_ns) {
  xplane::PlaneBuilder host(xplane::kHostPlane);
  host.BeginLine(1, "main", 0);
  host.AddEvent(host.EventId("work"), 0, 1000);
  xplane::PlaneBuilder environment(xplane::kTaskEnvironmentPlane);
  environment.AddPlaneStat(xplane::kProfileStart, static_cast<std::uint64_t>(zero_ns));
  return host.Encode() + environment.Encode();
}

TEST(LoadRun, TracesTooFarApartForOneClockAreTold) {
  constexpr std::int64_t kZeroNs = 1'790'000'000'000'000'000, kDayNs = 86'400'000'000'000;
  const LoadedRun run = MadeRun(
      {StartedAt(kZeroNs), StartedAt(kZeroNs + 20 * kDayNs), StartedAt(kZeroNs + 40 * kDayNs)});
  ASSERT_EQ(run.workers.size(), 3u);
  EXPECT_EQ(run.workers[1].shift_ps, 20 * kDayNs * 1000);
  EXPECT_LT(run.workers[2].shift_ps, 27 * kDayNs * 1000) << "the clock holds no more";
  EXPECT_THAT(run.warnings,
              testing::ElementsAre("w2: begins more than 26 days after the first trace and is "
                                   "shown too early"));
}

TEST(LoadRun, LinesOfASparseCoreAreInTheOrderOfATensorCores) {
  const LoadedRun run = MadeRun({SparseCorePlane()});
  std::vector<std::string_view> lines;
  for (std::uint32_t row = 0; row < run.rows.size(); ++row) lines.push_back(run.LineOf(row));
  EXPECT_THAT(lines, testing::ElementsAre("Sparse Core Steps", "Sparse Core Modules",
                                          "Sparse Core Ops", "XLA TraceMe"));
}

}  // namespace
}  // namespace strobe::viewer
