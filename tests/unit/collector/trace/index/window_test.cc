#include "collector/trace/index/window.h"

#include <gmock/gmock.h>

#include <map>
#include <random>

#include "collector/trace/index/buckets.h"
#include "collector/trace/xplane/builder.h"
#include "collector/trace/xplane/lanes.h"
#include "collector/trace/xplane/names.h"
#include "tests/fakes/made_index.h"

namespace strobe::index {
namespace {

using testing::ElementsAre;

struct Given {
  std::int64_t begin, length;
  int name = 0;
};

std::string Trace(const std::vector<Given>& events, std::string_view line = "line") {
  xplane::PlaneBuilder plane("plane");
  plane.BeginLine(7, line, 0);
  for (const Given& event : events)
    plane.AddEvent(plane.EventId("event " + std::to_string(event.name)), event.begin, event.length);
  return plane.Encode();
}

std::uint64_t InWindow(const std::vector<Given>& events, std::int64_t begin, std::int64_t end) {
  std::uint64_t count = 0;
  for (const Given& e : events)
    count += (e.begin >= begin && e.begin < end) || (e.begin < begin && e.begin + e.length > begin);
  return count;
}

std::vector<Given> RandomEvents(std::mt19937_64& random, std::size_t most) {
  std::vector<Given> events(1 + random() % most);
  const std::int64_t span = std::int64_t{1} << (4 + random() % 40);
  for (Given& event : events) {
    // Produces clusters, gaps, ties, zero-length events and long events.
    const std::int64_t cluster = span / 8 * static_cast<std::int64_t>(random() % 8);
    event.begin = cluster + static_cast<std::int64_t>(random()) % (1 + span / 64);
    event.begin = std::abs(event.begin);
    event.length = random() % 5 == 0    ? 0
                   : random() % 50 == 0 ? span / 3
                                        : static_cast<std::int64_t>(random() % (1 + span / 500));
    event.name = static_cast<int>(random() % 20);
  }
  return events;
}

// For any window and zoom level, the items count each event in the window exactly once.
TEST(Window, LosesNothing) {
  std::mt19937_64 random(static_cast<unsigned>(testing::UnitTest::GetInstance()->random_seed()));
  for (int round = 0; round < 60; ++round) {
    const std::vector<Given> events = RandomEvents(random, round % 4 == 0 ? 20'000 : 700);
    const MadeIndex made(Trace(events));
    ASSERT_TRUE(made.status.ok()) << made.status;
    EXPECT_EQ(made.index.header().events, events.size());
    for (int asked = 0; asked < 30; ++asked) {
      Window window{.level = static_cast<std::uint32_t>(random() % 46)};
      const auto first = static_cast<std::int64_t>(
          random() % (2 + static_cast<std::uint64_t>(made.index.header().end_ps >> window.level)));
      window.begin_ps = first << window.level;
      window.end_ps = (first + 1 + static_cast<std::int64_t>(random() % 600)) << window.level;
      std::uint64_t drawn = 0;
      for (const Track& track : made.index.tracks()) {
        std::int64_t last = std::numeric_limits<std::int64_t>::min();
        for (const Item& item : Look(made.index, track, window)) {
          drawn += item.count;
          EXPECT_LE(item.begin_ps, item.end_ps);
          EXPECT_LE(last >> window.level, item.begin_ps >> window.level);
          last = item.begin_ps;
          if (item.count > 1) {
            EXPECT_EQ(item.end_ps - item.begin_ps, std::int64_t{1} << window.level);
          }
        }
      }
      const std::uint64_t expected = InWindow(events, window.begin_ps, window.end_ps);
      ASSERT_EQ(drawn, expected) << "round " << round << " level " << window.level;
    }
  }
}

TEST(Window, OneEventLiesWhereItIs) {
  std::vector<Given> events;
  for (int i = 0; i < 5000; ++i) events.push_back({i * 1'000'003ll, 900'001, i % 7});
  const MadeIndex made(Trace(events));
  const Track& track = made.index.tracks()[0];
  const std::vector<Item> items = Look(made.index, track, {0, 64 << 14, 14});
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[1].begin_ps, 1'000'003);
  EXPECT_EQ(items[1].end_ps, 1'900'004);
  EXPECT_EQ(made.index.Text(items[1].name), "event 1");
  EXPECT_EQ(items[1].ordinal, 1u);
}

TEST(Window, SeveralInASlotSayHowBusyTheyAre) {
  std::vector<Given> events;
  for (int i = 0; i < 1024; ++i) events.push_back({i * 1024ll, 512});
  const MadeIndex made(Trace(events));
  const std::vector<Item> items = Look(made.index, made.index.tracks()[0], {0, 1 << 20, 15});
  ASSERT_EQ(items.size(), 32u);
  for (const Item& item : items) {
    EXPECT_EQ(item.count, 32u);
    EXPECT_FLOAT_EQ(item.busy, 0.5f);
  }
}

TEST(Window, ALongEventIsDrawnBesideTheShortOnesOfItsSlot) {
  const MadeIndex made(Trace({{0, 10}, {20, 10}, {64, 1 << 20, 3}}));
  const std::vector<Item> items = Look(made.index, made.index.tracks()[0], {0, 1 << 21, 10});
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[0].count, 2u);
  EXPECT_EQ(items[1].count, 1u);
  EXPECT_EQ(items[1].end_ps, 64 + (1 << 20));
}

TEST(Window, SixHundredThousandTiesStay) {
  const MadeIndex made(Trace(std::vector<Given>(600'000, {5'000, 0})));
  EXPECT_EQ(made.index.header().events, 600'000u);
  std::uint64_t drawn = 0;
  for (const Item& item : Look(made.index, made.index.tracks()[0], {0, 1 << 20, 12}))
    drawn += item.count;
  EXPECT_EQ(drawn, 600'000u);
}

TEST(Window, OverlapsLieInLanes) {
  const MadeIndex made(Trace({{0, 100}, {50, 100}, {60, 10}}));
  ASSERT_EQ(made.index.rows().size(), 1u);
  EXPECT_EQ(made.index.rows()[0].tracks, 3u);
  EXPECT_EQ(made.index.tracks()[1].lane + made.index.tracks()[2].lane, 1u);
}

TEST(Window, WhenLanesRunOutStillNothingIsLost) {
  std::vector<Given> events;
  for (int i = 0; i < 3000; ++i) events.push_back({i, 10'000});
  const MadeIndex made(Trace(events));
  for (const std::int64_t at : {100ll, 2'900ll, 9'000ll}) {
    std::uint64_t drawn = 0;
    for (const Track& track : made.index.tracks()) {
      for (const Item& item : Look(made.index, track, {at, at + 64, 0})) drawn += item.count;
    }
    EXPECT_EQ(drawn, InWindow(events, at, at + 64)) << at;
  }
}

TEST(Window, CountersHaveLeastMostAndLast) {
  xplane::PlaneBuilder plane("plane");
  plane.BeginLine(1, xplane::kCounterLine, 0);
  for (int i = 0; i < 1000; ++i) {
    plane.AddEvent(plane.EventId(i % 2 == 0 ? "even" : "odd"), i * 100, 0);
    plane.AddEventStat(plane.StatId("value"), static_cast<std::int64_t>(i));
  }
  const MadeIndex made(plane.Encode());
  ASSERT_EQ(made.index.rows().size(), 2u);
  EXPECT_EQ(made.index.rows()[1].kind, RowKind::kCounter);
  EXPECT_EQ(made.index.Text(made.index.rows()[1].name), "odd");
  const Track& even = made.index.tracks()[made.index.rows()[0].first_track];
  const std::vector<Sample> samples = LookAtValues(made.index, even, {0, 1 << 17, 15});
  ASSERT_EQ(samples.size(), 4u);
  EXPECT_EQ(samples[1].least, 328);
  EXPECT_EQ(samples[1].most, 654);
  EXPECT_EQ(samples[1].last, 654);
  std::uint32_t values = 0;
  for (const Sample& sample : samples) values += sample.count;
  EXPECT_EQ(values, 500u);
  EXPECT_EQ(LookAtValues(made.index, even, {1 << 16, 1 << 17, 15})[0].last, 654)
      << "what holds when the window begins";
}

// Damaged or hostile traces contain such times.
TEST(Window, TheEndOfTimeIsNoOverflow) {
  const std::int64_t late = std::int64_t{1} << 62;
  const MadeIndex made(Trace({{late, 1}, {late + 1, 1}, {late + 2, 1}}));
  ASSERT_TRUE(made.status.ok()) << made.status;
  for (const Track& track : made.index.tracks()) {
    for (const Item& item :
         Look(made.index, track, {0, std::numeric_limits<std::int64_t>::max(), kCoarsest}))
      EXPECT_GE(item.end_ps, item.begin_ps);
  }
}

}  // namespace
}  // namespace strobe::index
