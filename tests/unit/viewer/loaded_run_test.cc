#include "viewer/loaded_run.h"

#include <gmock/gmock.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "collector/xplane/builder.h"
#include "collector/xplane/names.h"
#include "tests/unit/viewer/made_run.h"
#include "viewer/arrows.h"
#include "viewer/comparison.h"

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

// Regression: such times and a worker's shift were added with overflow.
TEST(LoadRun, EventsAtTheEndsOfTimeStayOnTheClock) {
  constexpr std::int64_t kZeroNs = 1'790'000'000'000'000'000, kDayNs = 86'400'000'000'000;
  constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max() - 10;
  xplane::PlaneBuilder host(xplane::kHostPlane);
  host.BeginLine(1, "main", 0);
  std::int64_t number = 0;
  for (const std::int64_t at : {-kFar, std::int64_t{0}, kFar}) {
    host.AddEvent(host.EventId("train"), at, 1000);
    host.AddEventStat(host.StatId("step_num"), number++);
  }
  xplane::PlaneBuilder environment(xplane::kTaskEnvironmentPlane);
  environment.AddPlaneStat(xplane::kProfileStart,
                           static_cast<std::uint64_t>(kZeroNs + 20 * kDayNs));
  const LoadedRun run = MadeRun({StartedAt(kZeroNs), host.Encode() + environment.Encode()});
  const std::int64_t shift = 20 * kDayNs * 1000;
  ASSERT_EQ(run.workers.at(1).shift_ps, shift);
  const std::uint32_t track = run.RowOf(run.rows[run.NumberOf(1, 0)]).first_track;
  EXPECT_EQ(ReferTo(run, 1, track, 0).begin_ps, shift - kMaxTimePs);
  EXPECT_EQ(ReferTo(run, 1, track, 1).begin_ps, shift);
  EXPECT_EQ(ReferTo(run, 1, track, 2).begin_ps, shift + kMaxTimePs);
  const absl::StatusOr<std::string> steps = CompareSteps(run);
  ASSERT_TRUE(steps.ok()) << steps.status();
  const auto last = nlohmann::json::parse(*steps)["steps"].back();
  EXPECT_EQ(last["number"], 2);
  EXPECT_EQ(last["endPs"], shift + kMaxTimePs);
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
