#include "collector/trace/xplane/space.h"

#include <gmock/gmock.h>

#include <map>
#include <random>

#include "collector/trace/xplane/builder.h"
#include "collector/trace/xplane/lanes.h"
#include "tests/unit/collector/colliding_names.h"

namespace strobe::xplane {
namespace {

std::string Sample() {
  PlaneBuilder plane("/device:GPU:0", 3);
  plane.BeginLine(7, "Stream #7", 1000);
  plane.AddEvent(plane.EventId("kernel"), 5, 10);
  plane.AddEventStat(plane.StatId("n"), std::int64_t{-3});
  plane.AddEventStat(plane.StatId("u"), ~std::uint64_t{0});
  plane.AddEventStat(plane.StatId("x"), 0.5);
  plane.AddEventStat(plane.StatId("ref"), Ref{"kept"});
  plane.AddEventStat(plane.StatId("text"), std::string_view("free"));
  plane.AddEvent(plane.EventId("copy"), 20, 0);
  plane.AddPlaneStat("cores", std::uint64_t{132});
  return plane.Encode();
}

TEST(Space, ShowsWhatTheBuilderWrote) {
  const std::string bytes = Sample();
  const absl::StatusOr<Space> space = Space::Read(bytes);
  ASSERT_TRUE(space.ok()) << space.status();
  const Plane* plane = space->Find("/device:GPU:0");
  ASSERT_NE(plane, nullptr);
  EXPECT_EQ(plane->id, 3);
  EXPECT_EQ(plane->events(), 2u);
  ASSERT_EQ(plane->lines.size(), 1u);
  const Line& line = plane->lines[0];
  EXPECT_EQ(line.name, "Stream #7");
  EXPECT_EQ(line.timestamp_ns, 1000);
  std::vector<std::string> names;
  std::map<std::string, Stat> stats;
  ASSERT_TRUE(ForEachEvent(line, [&](const Event& event) {
                names.emplace_back(plane->NameOf(event));
                EXPECT_TRUE(ForEachStat(*plane, event, [&](const Stat& stat) {
                              stats[std::string(plane->NameOf(stat))] = stat;
                            }).ok());
              }).ok());
  EXPECT_EQ(stats["n"].Integer(), -3);
  EXPECT_EQ(std::get<std::uint64_t>(stats["u"].value), ~std::uint64_t{0});
  EXPECT_EQ(std::get<double>(stats["x"].value), 0.5);
  EXPECT_EQ(std::get<std::string_view>(stats["ref"].value), "kept");
  EXPECT_EQ(std::get<std::string_view>(stats["text"].value), "free");
  EXPECT_EQ(stats.size(), 5u);
  EXPECT_THAT(names, testing::ElementsAre("kernel", "copy"));
  int cores = 0;
  ASSERT_TRUE(plane
                  ->ForEachStat([&](const Stat& stat) {
                    if (plane->NameOf(stat) == "cores") cores = static_cast<int>(*stat.Integer());
                  })
                  .ok());
  EXPECT_EQ(cores, 132);
  EXPECT_NE(plane->StatId("n"), 0);
  EXPECT_EQ(plane->StatId("nothing"), 0);
}

// Reads everything. The test is that nothing reads out of bounds or hangs.
void ReadAll(std::string_view bytes) {
  const absl::StatusOr<Space> space = Space::Read(bytes);
  if (!space.ok()) return;
  for (const Plane& plane : space->planes) {
    (void)plane.ForEachStat([&](const Stat& stat) { (void)plane.NameOf(stat); });
    for (const Line& line : plane.lines) {
      (void)PlaceEvents(line);
      (void)ForEachEvent(line, [&](const Event& event) {
        (void)plane.NameOf(event);
        (void)ForEachStat(plane, event, [](const Stat& stat) { (void)stat.Integer(); });
      });
    }
  }
}

TEST(Space, RefusesEveryCut) {
  const std::string bytes = Sample();
  for (std::size_t size = 1; size < bytes.size(); ++size) {
    // An exact copy, so that a sanitizer detects any read behind its end.
    const std::string cut = bytes.substr(0, size);
    EXPECT_EQ(Space::Read(cut).status().code(), absl::StatusCode::kDataLoss) << size;
  }
  EXPECT_TRUE(Space::Read("").ok());
}

TEST(Space, SurvivesAnyBytes) {
  std::mt19937 random(testing::UnitTest::GetInstance()->random_seed());
  const std::string bytes = Sample();
  for (int round = 0; round < 20'000; ++round) {
    std::string damaged = bytes;
    for (unsigned i = static_cast<unsigned>(random() % 4) + 1; i > 0; --i)
      damaged[random() % damaged.size()] = static_cast<char>(random());
    ReadAll(damaged);
  }
  for (int round = 0; round < 2'000; ++round) {
    std::string noise(random() % 200, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    ReadAll(noise);
  }
}

std::string Repeat(std::string_view piece, std::size_t times) {
  std::string bytes;
  for (std::size_t i = 0; i < times; ++i) bytes += piece;
  return bytes;
}

// One plane with the given content.
std::string Plane(const std::string& content) {
  std::string bytes;
  wire::AppendBytesField(1, content, bytes);
  return bytes;
}

// Regression: two bytes of input took 250 bytes of memory, so a 200 MB trace ended a sidecar.
TEST(Space, WhatIsMadeToTakeMemoryIsRefused) {
  std::string names;
  for (std::uint32_t i = 0; i < 200'000; ++i) {
    std::string entry;
    wire::AppendVarintField(1, i, entry);
    wire::AppendBytesField(4, entry, names);
  }
  for (const std::string& bytes :
       {Repeat({"\x0a\x00", 2}, 100'000), Plane(Repeat({"\x1a\x00", 2}, 100'000)),
        Plane(Repeat({"\x22\x00", 2}, 100'000)), Plane(Repeat({"\x2a\x00", 2}, 100'000)),
        Repeat({"\x12\x00", 2}, 100'000), Plane(names)}) {
    const absl::Status status = Space::Read(bytes).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << bytes.size();
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("reasonably hold"));
  }
}

// Regression: to read 3 MB of names took a minute.
TEST(Space, IdsThatAreChosenToCollideAreRead) {
  const std::string bytes = CollidingNames();
  const absl::StatusOr<Space> space = Space::Read(bytes);
  ASSERT_TRUE(space.ok()) << space.status();
  EXPECT_EQ(space->planes[0].event_names.size(), static_cast<std::size_t>(kCollidingIds));
  EXPECT_EQ(space->planes[0].NameOf(Event{.name_id = 7 * kCollidingBuckets}), "7");
}

// Regression: readers ask for ids again for each line or event, and all names were searched.
TEST(Space, EveryStatIsFoundByItsName) {
  PlaneBuilder plane("p");
  std::vector<std::int64_t> ids;
  for (int i = 0; i < 500'000; ++i) ids.push_back(plane.StatId(std::to_string(i)));
  const std::string bytes = plane.Encode();
  const Space space = *Space::Read(bytes);
  for (std::size_t i = 0; i < ids.size(); ++i)
    ASSERT_EQ(space.planes[0].StatId(std::to_string(i)), ids[i]);
}

TEST(Space, OfStatsWithOneNameTheLowestIdCounts) {
  std::string content;
  for (const std::uint64_t id : {5u, 3u, 4u}) {
    std::string name, entry;
    wire::AppendBytesField(2, "flow", name);
    wire::AppendVarintField(1, id, entry);
    wire::AppendBytesField(2, name, entry);
    wire::AppendBytesField(5, entry, content);
  }
  EXPECT_EQ(Space::Read(Plane(content))->planes[0].StatId("flow"), 3);
}

TEST(Space, WhatIsSmallMayBeEmpty) {
  EXPECT_EQ(Space::Read(Repeat({"\x0a\x00", 2}, 500))->planes.size(), 500u);
  EXPECT_EQ(Space::Read(Plane(Repeat({"\x1a\x00", 2}, 2000)))->planes[0].lines.size(), 2000u);
}

TEST(Space, ManyShortNamesAndLinesAreHonest) {
  PlaneBuilder plane("p");
  for (int line = 0; line < 20'000; ++line) {
    plane.BeginLine(line, "t", 0);
    plane.AddEvent(plane.EventId(std::to_string(line)), 1, 1);
  }
  EXPECT_TRUE(Space::Read(plane.Encode()).ok());
}

TEST(Space, ReadsNoMoreThanThereIsMemoryFor) {
  PlaneBuilder plane("p");
  for (int line = 0; line < 10'000; ++line) plane.BeginLine(line, "a line with a name", 0);
  const std::string bytes = plane.Encode();
  EXPECT_TRUE(Space::Read(bytes).ok());
  EXPECT_EQ(Space::Read(bytes, Depth::kLines, 100'000).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace strobe::xplane
