#include "collector/trace/analysis/event_stats.h"

#include <gmock/gmock.h>

#include <limits>

#include "collector/trace/analysis/steps.h"
#include "collector/trace/xplane/builder.h"
#include "collector/trace/xplane/names.h"
#include "collector/trace/xplane/wire.h"
#include "tests/unit/collector/colliding_names.h"

namespace strobe::analysis {
namespace {

TEST(EventStats, NamesWithIdsThatAreChosenToCollideAreCounted) {
  const std::string bytes = CollidingNames();
  const auto stats = ComputeStats(xplane::Space::Read(bytes)->planes[0]);
  ASSERT_TRUE(stats.ok());
  EXPECT_EQ(stats->kinds.size(), static_cast<std::size_t>(kCollidingIds));
}

TEST(EventStats, SelfIsTotalLessWhatRanInside) {
  xplane::PlaneBuilder plane("/host:CPU");
  plane.BeginLine(1, "one", 0);
  plane.AddEvent(plane.EventId("outer"), 0, 100);
  plane.AddEvent(plane.EventId("inner"), 10, 30);
  plane.AddEvent(plane.EventId("leaf"), 15, 5);
  plane.AddEvent(plane.EventId("inner"), 50, 20);
  plane.BeginLine(2, "two", 0);
  plane.AddEvent(plane.EventId("outer"), 200, 10);
  const std::string bytes = plane.Encode();
  const auto space = xplane::Space::Read(bytes);
  const auto stats = ComputeStats(space->planes[0]);
  ASSERT_TRUE(stats.ok());
  EXPECT_EQ(stats->events, 5u);
  EXPECT_EQ(stats->begin_ps, 0);
  EXPECT_EQ(stats->end_ps, 210);
  ASSERT_EQ(stats->kinds.size(), 3u);
  const EventStats &outer = stats->kinds[0], &inner = stats->kinds[1], &leaf = stats->kinds[2];
  EXPECT_EQ(outer.name, "outer");
  EXPECT_EQ(outer.count, 2u);
  EXPECT_EQ(outer.total_ps, 110);
  EXPECT_EQ(outer.self_ps, 60);
  EXPECT_EQ(outer.min_ps, 10);
  EXPECT_EQ(outer.max_ps, 100);
  EXPECT_EQ(inner.total_ps, 50);
  EXPECT_EQ(inner.self_ps, 45);
  EXPECT_EQ(leaf.self_ps, 5);
}

TEST(EventStats, KindsMayBeThoseOfSomeLines) {
  xplane::PlaneBuilder plane("/device:GPU:0");
  plane.BeginLine(1, "work", 0);
  plane.AddEvent(plane.EventId("kernel"), 10, 30);
  plane.BeginLine(2, "scopes", 0);
  plane.AddEvent(plane.EventId("scope"), 0, 100);
  const std::string bytes = plane.Encode();
  const auto space = xplane::Space::Read(bytes);
  const auto stats =
      ComputeStats(space->planes[0], [](const xplane::Line& line) { return line.name == "work"; });
  ASSERT_TRUE(stats.ok());
  EXPECT_EQ(stats->events, 2u);
  EXPECT_EQ(stats->end_ps, 100);
  ASSERT_EQ(stats->kinds.size(), 1u);
  EXPECT_EQ(stats->kinds[0].name, "kernel");
}

// Some profilers write a number of occurrences instead of single events.
TEST(EventStats, ManyOccurrencesDoNotOverflow) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  std::string aggregate, line, plane, bytes;
  wire::AppendVarintField(1, 1, aggregate);      // metadata_id
  wire::AppendVarintField(3, kMost, aggregate);  // duration_ps
  wire::AppendVarintField(5, kMost, aggregate);  // num_occurrences
  for (int i = 0; i < 3; ++i) wire::AppendBytesField(4, aggregate, line);
  wire::AppendBytesField(2, "/device:TPU:0", plane);
  wire::AppendBytesField(3, line, plane);
  wire::AppendBytesField(1, plane, bytes);
  const auto space = xplane::Space::Read(bytes);
  ASSERT_TRUE(space.ok()) << space.status();
  const auto stats = ComputeStats(space->planes[0]);
  ASSERT_TRUE(stats.ok()) << stats.status();
  ASSERT_EQ(stats->kinds.size(), 1u);
  EXPECT_EQ(stats->kinds[0].count, kMost);
  EXPECT_EQ(stats->kinds[0].total_ps, static_cast<std::int64_t>(kMost));
}

TEST(Steps, AreAnnotationsWithANumber) {
  xplane::PlaneBuilder plane(xplane::kHostPlane);
  plane.BeginLine(1, "main", 5);
  for (std::int64_t number : {4, 5}) {
    plane.AddEvent(plane.EventId("train"), number * 100, 50);
    plane.AddEventStat(plane.StatId("step_num"), number);
  }
  plane.AddEvent(plane.EventId("other"), 700, 50);
  const std::string bytes = plane.Encode();
  const auto steps = FindSteps(*xplane::Space::Read(bytes));
  ASSERT_TRUE(steps.ok());
  ASSERT_EQ(steps->size(), 2u);
  EXPECT_EQ((*steps)[1].name, "train");
  EXPECT_EQ((*steps)[1].number, 5);
  EXPECT_EQ((*steps)[1].begin_ps, 5500);
}

}  // namespace
}  // namespace strobe::analysis
