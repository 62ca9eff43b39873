#include "viewer/run/loaded_run.h"

#include <gmock/gmock.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "collector/trace/xplane/builder.h"
#include "collector/trace/xplane/names.h"
#include "tests/unit/viewer/made_run.h"
#include "viewer/answers/arrows.h"
#include "viewer/answers/comparison.h"

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

TEST(LoadRun, WorkersOfOneRoleLieBesideEachOther) {
  const auto with_role = [](std::string_view role) {
    xplane::PlaneBuilder strobe(xplane::kStrobePlane);
    strobe.AddPlaneStat("role", role);
    return StartedAt(1'790'000'000'000'000'000) + strobe.Encode();
  };
  const LoadedRun run = MadeRun({with_role("prefill"), with_role("decode"), with_role("prefill")});
  std::vector<std::string> workers;
  for (const Worker& worker : run.workers) workers.push_back(worker.name + " " + worker.role);
  EXPECT_THAT(workers, testing::ElementsAre("w1 decode", "w0 prefill", "w2 prefill"));
  EXPECT_THAT(DescribeRun(run), testing::HasSubstr(R"("role":"decode")"));
}

// The tracks of a row that the page hides at first; see WrappersOf.
TEST(DescribeRun, FramesAroundTheWholeRowAreCounted) {
  using Spans = std::vector<std::pair<std::int64_t, std::int64_t>>;
  const auto wrappers = [](const Spans& spans) {
    xplane::PlaneBuilder host(xplane::kHostPlane);
    host.BeginLine(1, "main", 0);
    for (const auto& [begin, length] : spans) host.AddEvent(host.EventId("f"), begin, length);
    const auto run = nlohmann::json::parse(DescribeRun(MadeRun({host.Encode()})));
    return run["rows"][0]["wrappers"].get<int>();
  };
  EXPECT_EQ(wrappers({{0, 1000}}), 0);
  EXPECT_EQ(wrappers({{0, 1000}, {0, 990}, {5, 970}, {10, 400}, {500, 400}}), 2);
  EXPECT_EQ(wrappers({{0, 1000}, {0, 500}, {0, 500}, {500, 500}}), 0);
  EXPECT_EQ(wrappers({{0, 900}, {0, 890}, {950, 100}}), 0) << "another event follows";
  EXPECT_EQ(wrappers({{0, 980}, {0, 970}, {0, 960}, {990, 10}, {990, 5}}), 2)
      << "what follows is short";
}

// A trace of one event and, where they are told, a clock's error and steps.
std::string Recorded(std::int64_t late_ns, std::int64_t length_ps, std::int64_t error_ns = -1,
                     std::int64_t step_ps = 0) {
  xplane::PlaneBuilder host(xplane::kHostPlane);
  host.BeginLine(1, "main", 0);
  host.AddEvent(host.EventId("work"), 0, length_ps);
  if (step_ps > 0) {
    host.BeginLine(2, "Steps", 0);
    std::int64_t at = 0;
    for (const std::int64_t factor : {1, 1, 3}) {
      host.AddEvent(host.EventId("0"), at, factor * step_ps);
      at += factor * step_ps;
    }
  }
  xplane::PlaneBuilder environment(xplane::kTaskEnvironmentPlane);
  environment.AddPlaneStat(xplane::kProfileStart,
                           static_cast<std::uint64_t>(1'790'000'000'000'000'000 + late_ns));
  xplane::PlaneBuilder strobe(xplane::kStrobePlane);
  if (error_ns >= 0) {
    strobe.AddPlaneStat("clock_offset_ns", std::int64_t{0});
    strobe.AddPlaneStat("clock_error_ns", error_ns);
  }
  return host.Encode() + environment.Encode() + strobe.Encode();
}

std::vector<std::vector<std::string>> ClockProblems(const std::vector<std::string>& traces) {
  std::vector<std::vector<std::string>> problems;
  for (const Worker& worker : MadeRun(traces).workers) problems.push_back(worker.clock_problems);
  return problems;
}

// Regression: a clock that was wrong by a day gave an axis of a day, and no warning.
TEST(LoadRun, WorkersThatDoNotOverlapWithTheOthersAreTold) {
  using testing::ElementsAre, testing::HasSubstr, testing::IsEmpty;
  constexpr std::int64_t kMs = 1'000'000, kSecond = 1000 * kMs, kHour = 3600 * kSecond;
  const std::string usual = Recorded(0, kSecond * 1000);
  const auto at = [&](std::int64_t late_ns) { return Recorded(late_ns, kSecond * 1000); };
  EXPECT_THAT(ClockProblems({usual, at(700 * kMs), at(1600 * kMs)}),
              ElementsAre(IsEmpty(), IsEmpty(), IsEmpty()))
      << "one after the other";
  EXPECT_THAT(
      ClockProblems({usual, at(24 * kHour), usual}),
      ElementsAre(
          IsEmpty(),
          ElementsAre(AllOf(HasSubstr("begins "),
                            HasSubstr("after the end of most of the others: its clock is wrong"))),
          IsEmpty()));
  EXPECT_THAT(ClockProblems({usual, at(3 * kSecond), at(3 * kSecond + 1)}),
              ElementsAre(ElementsAre(HasSubstr("ends 2s before the begin of most of the others")),
                          IsEmpty(), IsEmpty()))
      << "most are late";
  EXPECT_THAT(ClockProblems({usual, at(1001 * kMs)}),
              ElementsAre(IsEmpty(), ElementsAre(HasSubstr("begins 1ms after the end of w0"))));
  EXPECT_THAT(ClockProblems({usual}), ElementsAre(IsEmpty()));
}

TEST(LoadRun, AClockThatIsKnownLessWellThanAStepIsTold) {
  using testing::ElementsAre, testing::HasSubstr, testing::IsEmpty;
  constexpr std::int64_t kMs = 1'000'000, kMsInPs = 1000 * kMs;
  EXPECT_THAT(ClockProblems({Recorded(0, 1000 * kMsInPs, 20 * kMs, 20 * kMsInPs),
                             Recorded(0, 1000 * kMsInPs, 20 * kMs + 1, 20 * kMsInPs)}),
              ElementsAre(IsEmpty(),
                          ElementsAre(HasSubstr("known only within 20ms, and a step takes 20ms"))));
  // Without steps, all that it recorded.
  EXPECT_THAT(
      ClockProblems({Recorded(0, 30 * kMsInPs, 20 * kMs), Recorded(0, 30 * kMsInPs, 31 * kMs)}),
      ElementsAre(IsEmpty(), ElementsAre(HasSubstr("and it recorded 30ms"))));
  EXPECT_THAT(ClockProblems({Recorded(0, 30 * kMsInPs), Recorded(0, 30 * kMsInPs)}),
              ElementsAre(IsEmpty(), IsEmpty()))
      << "clocks that are not measured are told elsewhere";
  EXPECT_THAT(ClockProblems({Recorded(0, 30 * kMsInPs, 31 * kMs)}), ElementsAre(IsEmpty()))
      << "there is no other";
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

using testing::Each;
using testing::ElementsAre;

TEST(Pools, TheNumberBehindTheNameIsNoPartOfThePool) {
  EXPECT_EQ(PoolOf("tf_XLAEigen/1820674387824816815"), "tf_XLAEigen");
  EXPECT_EQ(PoolOf("tf_XLAEigen/-1820674387824816815"), "tf_XLAEigen");
  EXPECT_EQ(PoolOf("tf_data_private_threadpool/7/12"), "tf_data_private_threadpool/7");
  EXPECT_EQ(PoolOf("worker-3"), "worker");
  EXPECT_EQ(PoolOf("ThreadPoolExecutor-0_3"), "ThreadPoolExecutor-0");
  EXPECT_EQ(PoolOf("Thread-12 (serve)"), "Thread (serve)");
  EXPECT_EQ(PoolOf("python"), "python");
  EXPECT_EQ(PoolOf("tpu_v4"), "tpu_v4") << "nothing separates the number";
}

TEST(Pools, OddNamesArePoolsOfTheirOwn) {
  for (const std::string_view name : {"", "123", "/7", "-7", " (x)", "_", "é/1é", "(((((", "7 (f)"})
    EXPECT_EQ(PoolOf(name), name);
}

TEST(Pools, OneThreadAloneIsNoPool) {
  EXPECT_THAT(FindPools({"python", "tf_XLAEigen/1", "tf_XLAEigen/2", "grpc/9"}),
              ElementsAre("", "tf_XLAEigen", "tf_XLAEigen", ""));
  EXPECT_THAT(FindPools({"python", "python"}), Each("python")) << "threads of the same name";
  EXPECT_THAT(FindPools({"", ""}), Each(""));
}

}  // namespace

}  // namespace strobe::viewer
