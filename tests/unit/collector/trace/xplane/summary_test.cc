#include "collector/trace/xplane/summary.h"

#include <gmock/gmock.h>

#include <random>

#include "collector/trace/xplane/builder.h"
#include "collector/trace/xplane/edit.h"
#include "collector/trace/xplane/names.h"
#include "tests/fakes/fake_trace.h"

namespace strobe::xplane {
namespace {

using tensorflow::profiler::XPlane;
using tensorflow::profiler::XSpace;
using testing::ElementsAre;
using testing::SizeIs;

TEST(Summarize, ReadsPlanesEventsAndTimes) {
  XSpace space = FakeTrace(1000, 2000, 3);
  space.add_warnings("careful");
  const auto summary = Summarize(space.SerializeAsString());
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->events, 3u);
  EXPECT_EQ(summary->started_ns, 1000);
  EXPECT_EQ(summary->stopped_ns, 2000);
  EXPECT_THAT(summary->planes, SizeIs(2));
  EXPECT_THAT(summary->warnings, ElementsAre("careful"));
  EXPECT_THAT(summary->hostnames, ElementsAre("host"));
}

TEST(Summarize, AnEmptyTraceIsATrace) {
  const auto summary = Summarize("");
  ASSERT_TRUE(summary.ok());
  EXPECT_EQ(summary->started_ns, 0);
}

TEST(Summarize, RefusesCutTraces) {
  const std::string bytes = FakeTrace(1, 2, 50).SerializeAsString();
  EXPECT_FALSE(Summarize(std::string_view(bytes).substr(0, bytes.size() - 3)).ok());
}

TEST(Summarize, SurvivesDamage) {
  const std::string bytes = FakeTrace(1, 2, 50).SerializeAsString();
  std::mt19937 random(7);
  for (int i = 0; i < 5000; ++i) {
    std::string damaged = bytes;
    damaged[random() % damaged.size()] = static_cast<char>(random());
    (void)Summarize(damaged);
  }
}

TEST(EncodeStatPlane, AddsAPlaneByAppending) {
  std::string bytes = FakeTrace(1, 2, 3).SerializeAsString();
  bytes += EncodeStatPlane(kStrobePlane,
                           {{"instant_ns", std::int64_t{-42}}, {"worker", std::string("w0")}});
  XSpace space;
  ASSERT_TRUE(space.ParseFromString(bytes));
  ASSERT_EQ(space.planes_size(), 3);
  const XPlane& ours = space.planes(2);
  EXPECT_EQ(ours.name(), kStrobePlane);
  EXPECT_EQ(ours.stats(0).int64_value(), -42);
  EXPECT_EQ(ours.stat_metadata().at(ours.stats(1).metadata_id()).name(), "worker");
  EXPECT_EQ(ours.stats(1).str_value(), "w0");
}

TEST(AppendXSpace, JoinsProcessesUnderTheirOwnNames) {
  std::string whole;
  ASSERT_TRUE(AppendXSpace(FakeTrace(1000, 3000, 2).SerializeAsString(), "9012", whole).ok());
  ASSERT_TRUE(AppendXSpace(FakeTrace(1200, 2900, 5).SerializeAsString(), "9013", whole).ok());
  XSpace space;
  ASSERT_TRUE(space.ParseFromString(whole));
  EXPECT_EQ(space.planes(0).name(), "/host:CPU [9012]");
  EXPECT_EQ(space.planes(2).name(), "/host:CPU [9013]");
  EXPECT_EQ(space.planes(2).lines(0).events_size(), 5);
  EXPECT_EQ(space.hostnames_size(), 1) << "XProf expects exactly one";
  const auto summary = Summarize(whole);
  EXPECT_EQ(summary->started_ns, 1200) << "recorded by all since then";
  EXPECT_EQ(summary->stopped_ns, 2900);
}

// Each profiler counts its lines' time stamps from its own start.
TEST(AppendXSpace, KeepsAbsoluteTimesWhoeverStartedFirst) {
  const auto trace = [](std::int64_t start, std::int64_t timestamp) {
    XSpace space = FakeTrace(start, start + 5000);
    space.mutable_planes(0)->mutable_lines(0)->set_timestamp_ns(timestamp);
    space.mutable_planes(0)->mutable_lines(0)->set_name("main");
    return space.SerializeAsString();
  };
  const auto joined = [](std::string whole, const std::string& part) {
    EXPECT_TRUE(AppendXSpace(part, "b", whole).ok());
    EXPECT_EQ(*TimeZero(whole), 1000);
    XSpace space;
    EXPECT_TRUE(space.ParseFromString(whole));
    EXPECT_EQ(space.planes(2).lines(0).name(), "main");
    EXPECT_EQ(space.planes(2).name(), "/host:CPU [b]");
    return std::pair(space.planes(0).lines(0).timestamp_ns(),
                     space.planes(2).lines(0).timestamp_ns());
  };
  EXPECT_EQ(joined(trace(1000, 7), trace(1200, 5)), std::pair(std::int64_t{7}, std::int64_t{205}));
  EXPECT_EQ(joined(trace(1200, 5), trace(1000, 7)), std::pair(std::int64_t{205}, std::int64_t{7}));
  EXPECT_EQ(joined(trace(1000, 5), trace(1000, 7)), std::pair(std::int64_t{5}, std::int64_t{7}));
}

// Regression: they were shifted as times since the profiler's start.
TEST(AppendXSpace, UnixTimesOfLinesStayTheSameTimes) {
  constexpr std::int64_t kUnix = 1'767'225'600'000'000'000;
  const auto part = [](std::int64_t start_ns) {
    PlaneBuilder host("/host:CPU");
    host.BeginLine(1, "line", start_ns + 500);
    host.AddEvent(host.EventId("op"), 0, 1000);
    PlaneBuilder environment(kTaskEnvironmentPlane);
    environment.AddPlaneStat(kProfileStart, start_ns);
    return host.Encode() + environment.Encode();
  };
  for (const std::int64_t later : {7000, -7000}) {
    std::string whole = part(kUnix);
    ASSERT_TRUE(AppendXSpace(part(kUnix + later), "b", whole).ok());
    const absl::StatusOr<Space> space = Space::Read(whole);
    ASSERT_TRUE(space.ok()) << space.status();
    const std::int64_t zero = TimeZero(*space).value_or(0);
    std::vector<std::int64_t> times;
    for (const auto& plane : space->planes) {
      // Readers take large time stamps for Unix times.
      for (const auto& line : plane.lines)
        times.push_back(line.timestamp_ns - (IsUnixTime(line.timestamp_ns) ? kUnix : kUnix - zero));
    }
    EXPECT_THAT(times, ElementsAre(500, later + 500));
  }
}

TEST(AppendXSpace, LeavesTheWholeAsItWasWhenThePartIsDamaged) {
  std::string whole = FakeTrace(1, 2, 1).SerializeAsString();
  const std::string before = whole;
  const std::string part = FakeTrace(1, 2, 9).SerializeAsString();
  EXPECT_FALSE(AppendXSpace(std::string_view(part).substr(0, part.size() - 2), "x", whole).ok());
  EXPECT_EQ(whole, before);
}

}  // namespace
}  // namespace strobe::xplane
