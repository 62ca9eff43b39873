#include "collector/trace/xplane/lanes.h"

#include <gmock/gmock.h>

#include <limits>
#include <random>
#include <set>

#include "collector/trace/xplane/builder.h"

namespace strobe::xplane {
namespace {

using testing::ElementsAre;

struct Given {
  std::int64_t begin, length;
};

// Lane and depth of each event, sorted by time.
std::vector<Placed> Place(const std::vector<Given>& events, std::int64_t timestamp_ns = 0) {
  static std::vector<std::string> keep;  // The returned events point into these bytes.
  PlaneBuilder plane("p");
  plane.BeginLine(1, "l", timestamp_ns);
  for (const Given& event : events) plane.AddEvent(plane.EventId("e"), event.begin, event.length);
  keep.push_back(plane.Encode());
  const Space space = *Space::Read(keep.back());
  return *PlaceEvents(space.planes[0].lines[0]);
}

std::vector<std::pair<std::uint32_t, std::uint32_t>> Lanes(const std::vector<Given>& events) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> lanes;
  for (const Placed& event : Place(events)) lanes.emplace_back(event.lane, event.depth);
  return lanes;
}

using P = std::pair<std::uint32_t, std::uint32_t>;

TEST(Lanes, NestedEventsShareOne) {
  EXPECT_THAT(Lanes({{0, 100}, {10, 20}, {15, 5}, {40, 60}, {100, 5}}),
              ElementsAre(P{0, 0}, P{0, 1}, P{0, 2}, P{0, 1}, P{0, 0}));
}

TEST(Lanes, TheLongerOfTwoThatBeginTogetherIsOutside) {
  EXPECT_THAT(Lanes({{0, 5}, {0, 100}}), ElementsAre(P{0, 0}, P{0, 1}));
}

TEST(Lanes, OverlapsGetTheirOwn) {
  EXPECT_THAT(Lanes({{0, 10}, {5, 10}, {8, 10}, {11, 2}}),
              ElementsAre(P{0, 0}, P{1, 0}, P{2, 0}, P{0, 0}));
}

TEST(Lanes, TiesAreAllKept) {
  const std::vector<Given> same(600, {7, 0});
  EXPECT_EQ(Place(same).size(), 600u);
}

TEST(Lanes, HostileNumbersEndAtTheEdge) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  for (const Placed& event : Place({{kMax, kMax}, {-kMax, kMax}, {0, -5}}, kMax))
    EXPECT_LE(event.begin_ps, event.end_ps);
}

// Whether two events fit into one lane: they nest or do not overlap.
bool Fit(const Placed& a, const Placed& b) {
  const bool apart = a.end_ps <= b.begin_ps || b.end_ps <= a.begin_ps;
  const bool nested = (a.begin_ps <= b.begin_ps && b.end_ps <= a.end_ps) ||
                      (b.begin_ps <= a.begin_ps && a.end_ps <= b.end_ps);
  return apart || nested;
}

// Checks that the events of a lane fit into it, and that each lane is needed: one of its events
// does not fit into the lane before.
TEST(Lanes, HoldWhateverComes) {
  std::mt19937 random(testing::UnitTest::GetInstance()->random_seed());
  for (int round = 0; round < 200; ++round) {
    std::vector<Given> events(1 + random() % 60);
    for (Given& event : events) {
      event.begin = static_cast<std::int64_t>(random() % 100);
      event.length = static_cast<std::int64_t>(random() % 30);
    }
    const std::vector<Placed> placed = Place(events);
    ASSERT_EQ(placed.size(), events.size());
    std::set<std::uint32_t> lanes, needed{0};
    for (const Placed& a : placed) {
      lanes.insert(a.lane);
      for (const Placed& b : placed) {
        if (&a == &b) continue;
        ASSERT_TRUE(a.lane != b.lane || Fit(a, b));
        if (a.lane == b.lane + 1 && !Fit(a, b)) needed.insert(a.lane);
      }
    }
    EXPECT_EQ(lanes, needed);
  }
}

}  // namespace
}  // namespace strobe::xplane
