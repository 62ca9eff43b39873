#include "collector/trace/convert/align.h"

#include <gmock/gmock.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "collector/trace/xplane/builder.h"
#include "collector/trace/xplane/names.h"
#include "collector/trace/xplane/summary.h"

namespace strobe::convert {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t kJanuary = 1'767'225'600'000'000'000;  // 2026, as a Unix time in ns.
constexpr std::int64_t kHour = 3'600'000'000'000;
constexpr std::int64_t kJune = kJanuary + 151 * 24 * kHour;

// The trace of a worker whose profiler started at that time.
OpenTrace StartedAt(std::string_view worker, std::int64_t start_ns) {
  xplane::PlaneBuilder environment(xplane::kTaskEnvironmentPlane);
  environment.AddPlaneStat(xplane::kProfileStart, start_ns);
  OpenTrace trace{.worker = std::string(worker)};
  trace.content = std::make_unique<const std::string>(environment.Encode());
  return trace;
}

AlignedTraces Aligned(const std::vector<OpenTrace>& traces) {
  absl::StatusOr<AlignedTraces> aligned = AlignTraces(traces);
  EXPECT_TRUE(aligned.ok()) << aligned.status();
  return *std::move(aligned);
}

TEST(AlignTraces, WarnsOfTracesOfAnotherRun) {
  std::vector<OpenTrace> traces;
  traces.push_back(StartedAt("a", kJune + 5));
  traces.push_back(StartedAt("b", kJanuary));
  traces.push_back(StartedAt("c", kJune));
  const AlignedTraces aligned = Aligned(traces);
  EXPECT_EQ(aligned.zero_ns, kJanuary);
  EXPECT_EQ(aligned.workers[0].shift_ns, kJune + 5 - kJanuary) << "what is told stays true";
  EXPECT_EQ(aligned.workers[2].shift_ns, kJune - kJanuary);
  EXPECT_THAT(aligned.workers[0].space.warnings, ElementsAre(HasSubstr("of different runs")));
  EXPECT_THAT(aligned.workers[1].space.warnings, IsEmpty());
  EXPECT_THAT(aligned.workers[2].space.warnings, ElementsAre(HasSubstr("of different runs")));
}

// Regression: they were added with overflow.
TEST(AlignTraces, StartsAndOffsetsThatNoClockHasAreNotKnown) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  std::vector<OpenTrace> traces;
  traces.push_back(StartedAt("a", kJanuary));
  traces.push_back(StartedAt("b", kMost));
  traces.push_back(StartedAt("c", kJanuary));
  xplane::PlaneBuilder strobe(xplane::kStrobePlane);
  strobe.AddPlaneStat("clock_offset_ns", -kMost);
  strobe.AddPlaneStat("clock_error_ns", std::int64_t{5});
  traces[2].content =
      std::make_unique<const std::string>(std::string(traces[2].bytes()) + strobe.Encode());
  const AlignedTraces aligned = Aligned(traces);
  EXPECT_EQ(aligned.zero_ns, kJanuary);
  for (const WorkerTrace& worker : aligned.workers) {
    EXPECT_EQ(worker.shift_ns, 0) << worker.worker;
    EXPECT_EQ(worker.clock_offset_ns, 0) << worker.worker;
    EXPECT_FALSE(worker.clock_error_ns.has_value()) << worker.worker;
  }
}

// A trace of two lines with these time stamps. Its profiler does not tell when it started.
OpenTrace WithLinesAt(std::string_view worker, std::int64_t first_ns, std::int64_t second_ns) {
  xplane::PlaneBuilder plane("/host:CPU");
  for (const std::int64_t begin_ns : {first_ns, second_ns}) {
    plane.BeginLine(begin_ns, "line", begin_ns);
    plane.AddEvent(plane.EventId("op"), 0, 1000);
  }
  OpenTrace trace{.worker = std::string(worker)};
  trace.content = std::make_unique<const std::string>(plane.Encode());
  return trace;
}

// Regression: the first line was every worker's zero, so that all workers began at the same time
// and earlier lines had negative times.
TEST(AlignTraces, TheLeastUnixTimeOfItsLinesIsATracesZero) {
  std::vector<OpenTrace> traces;
  traces.push_back(WithLinesAt("a", kJanuary + 5000, kJanuary));
  traces.push_back(WithLinesAt("b", kJanuary + kHour, kJanuary + kHour + 7000));
  const AlignedTraces aligned = Aligned(traces);
  EXPECT_EQ(aligned.zero_ns, kJanuary);
  EXPECT_EQ(aligned.workers[0].shift_ns, 0);
  EXPECT_EQ(aligned.workers[1].shift_ns, kHour);
  EXPECT_EQ(aligned.workers[0].space.planes[0].lines[0].timestamp_ns, 5000);
  EXPECT_EQ(aligned.workers[0].space.planes[0].lines[1].timestamp_ns, 0);
  EXPECT_EQ(aligned.workers[1].space.planes[0].lines[0].timestamp_ns, 0);
  // The viewer does not read the lines.
  const auto planes = AlignTraces(traces, xplane::Depth::kPlanes);
  ASSERT_TRUE(planes.ok()) << planes.status();
  EXPECT_EQ(planes->workers[1].shift_ns, kHour);
  EXPECT_EQ(planes->zero_ns, kJanuary);
}

// A trace with two events, of which the second one has a stat. Its last byte is of that stat's
// text.
OpenTrace WithAStat(std::string_view worker) {
  xplane::PlaneBuilder plane("/host:CPU");
  plane.BeginLine(1, "line", kJanuary);
  plane.AddEvent(plane.EventId("op"), 0, 1000);
  plane.AddEvent(plane.EventId("op"), 2000, 1000);
  plane.AddEventStat(plane.StatId("note"), "text");
  OpenTrace trace{.worker = std::string(worker)};
  trace.content = std::make_unique<const std::string>(plane.Encode());
  return trace;
}

// Regression: one damaged event ended the conversion of the whole run.
TEST(LeaveOutDamaged, FindsWhatIsDeepWithinEvents) {
  std::vector<OpenTrace> traces;
  for (const char* worker : {"a", "b", "c"}) traces.push_back(WithAStat(worker));
  std::string damaged(traces[1].bytes());
  damaged[damaged.find("text") - 1] = '\x7f';  // The length of the text.
  traces[1].content = std::make_unique<const std::string>(damaged);
  AlignedTraces aligned = Aligned(traces);
  EXPECT_EQ(aligned.workers.size(), 3u) << "the lines are whole";
  EXPECT_EQ(*LeaveOutDamaged(aligned), 1u);
  ASSERT_EQ(aligned.left_out.size(), 1u);
  EXPECT_THAT(aligned.left_out[0].Warning(), HasSubstr("b is not shown: damaged or cut"));
  EXPECT_EQ(aligned.workers[1].worker, "c");
  EXPECT_EQ(aligned.workers[1].trace, 2u);
  EXPECT_EQ(*LeaveOutDamaged(aligned), 0u);
  aligned = Aligned(traces);
  aligned.workers.erase(aligned.workers.begin());
  aligned.workers.pop_back();
  EXPECT_TRUE(absl::IsDataLoss(LeaveOutDamaged(aligned).status())) << "nothing is left";
}

TEST(ReadSpace, TellsTheZeroFromWhichItsLinesCount) {
  std::int64_t zero_ns = 0;
  const OpenTrace lines = WithLinesAt("w", kJanuary, kJanuary + 5000);
  auto space = ReadSpace(lines.bytes(), zero_ns);
  ASSERT_TRUE(space.ok()) << space.status();
  EXPECT_EQ(zero_ns, kJanuary);
  EXPECT_EQ(space->planes[0].lines[1].timestamp_ns, 5000);
  EXPECT_EQ(xplane::TimeZero(*space).value_or(-1), 0) << "no plane tells it";
  const OpenTrace untold = WithLinesAt("w", 0, 5000);
  ASSERT_TRUE(ReadSpace(untold.bytes(), zero_ns).ok());
  EXPECT_EQ(zero_ns, 0);
}

// Regression: workers were shifted whose lines had Unix times, which count from no worker's start.
TEST(WriteMergedSpace, UnixTimesOfLinesCountFromTheRunsZero) {
  for (const bool told : {false, true}) {
    std::vector<OpenTrace> traces;
    for (const std::int64_t start : {kJanuary, kJanuary + kHour}) {
      OpenTrace trace = WithLinesAt("w", start + (told ? 500 : 0), start + 5000);
      if (told)
        trace.content = std::make_unique<const std::string>(
            std::string(trace.bytes()) + std::string(StartedAt("w", start).bytes()));
      traces.push_back(std::move(trace));
    }
    const AlignedTraces aligned = Aligned(traces);
    std::string merged;
    ASSERT_TRUE(WriteMergedSpace(aligned, [&](std::string_view piece) {
                  merged += piece;
                  return absl::OkStatus();
                }).ok());
    const auto space = xplane::Space::Read(merged);
    ASSERT_TRUE(space.ok()) << space.status();
    std::vector<std::int64_t> stamps;
    for (const xplane::Plane& plane : space->planes) {
      for (const xplane::Line& line : plane.lines) stamps.push_back(line.timestamp_ns);
    }
    const std::int64_t first = told ? 500 : 0;
    EXPECT_THAT(stamps, ElementsAre(first, 5000, kHour + first, kHour + 5000));
    EXPECT_EQ(xplane::TimeZero(*space).value_or(-1), kJanuary);
  }
}

// Regression: one damaged trace hid the whole run.
TEST(AlignTraces, LeavesOutDamagedTraces) {
  std::vector<OpenTrace> traces;
  traces.push_back(StartedAt("a", kJanuary));
  traces.front().content = std::make_unique<const std::string>("\x0a\x7f\x08\x01");
  traces.push_back(StartedAt("b", kJanuary));
  traces.push_back({.worker = "c", .damage = absl::DataLossError("no JSON")});
  const AlignedTraces aligned = Aligned(traces);
  ASSERT_EQ(aligned.workers.size(), 1u);
  EXPECT_EQ(aligned.workers[0].worker, "b");
  EXPECT_EQ(aligned.workers[0].trace, 1u);
  ASSERT_EQ(aligned.left_out.size(), 2u);
  EXPECT_THAT(aligned.left_out[0].Warning(), HasSubstr("a is not shown: damaged or cut"));
  EXPECT_EQ(aligned.left_out[1].Warning(), "c is not shown: no JSON");
  traces.erase(traces.begin() + 1);
  const absl::Status none = AlignTraces(traces).status();
  EXPECT_TRUE(absl::IsDataLoss(none)) << none;
  EXPECT_THAT(std::string(none.message()), HasSubstr("a: damaged or cut"));
}

TEST(AlignTraces, DoesNotWarnOfWorkersThatBeganLate) {
  std::vector<OpenTrace> traces;
  traces.push_back(StartedAt("a", kJanuary));
  traces.push_back(StartedAt("b", kJanuary + 23 * kHour));
  const AlignedTraces aligned = Aligned(traces);
  EXPECT_EQ(aligned.workers[1].shift_ns, 23 * kHour);
  EXPECT_THAT(aligned.workers[1].space.warnings, IsEmpty());
}

}  // namespace
}  // namespace strobe::convert
