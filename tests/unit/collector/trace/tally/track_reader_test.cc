#include "collector/trace/tally/track_reader.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <utility>

#include "tests/fakes/made_index.h"

namespace strobe::tally {
namespace {

using testing::ElementsAre;
using testing::Pair;

// An outer event every 1000 ps with two inner ones, of which the first begins with it.
std::string Nested(int outer) {
  xplane::PlaneBuilder host("/host:CPU");
  host.BeginLine(1, "main", 0);
  for (int i = 0; i < outer; ++i) {
    host.AddEvent(host.EventId("outer"), i * 1000, 900);
    host.AddEvent(host.EventId("first"), i * 1000, 300);
    host.AddEvent(host.EventId("second"), i * 1000 + 400, 300);
    host.AddEventStat(host.StatId("correlation_id"), static_cast<std::uint64_t>(i + 1));
  }
  xplane::PlaneBuilder gpu("/device:GPU:0");
  gpu.BeginLine(7, "Stream #7(Compute)", 0);
  for (int i = 0; i < outer; ++i) {
    gpu.AddEvent(gpu.EventId("kernel"), i * 1000 + 500, 10 + i);
    gpu.AddEventStat(gpu.StatId("correlation_id"), static_cast<std::uint64_t>(i + 1));
  }
  return host.Encode() + gpu.Encode();
}

const index::Row& RowOf(const index::Index& index, std::string_view name) {
  return *std::ranges::find_if(index.rows(),
                               [&](const auto& row) { return index.Text(row.name) == name; });
}

TEST(LaneReader, ReadsOuterEventsBeforeInnerOnesInTheOrderOfTheirBegins) {
  const index::MadeIndex made(Nested(2));
  const auto lanes = LanesOf(made.index, RowOf(made.index, "main"));
  ASSERT_EQ(lanes.size(), 1u);
  std::vector<std::pair<std::string, std::uint32_t>> read;
  for (LaneReader reader(made.index, lanes[0], Links::kLeftOut); reader.next() != nullptr;
       reader.Advance())
    read.emplace_back(made.index.Text(reader.next()->entry().name), reader.next()->depth());
  EXPECT_THAT(read, ElementsAre(Pair("outer", 0u), Pair("first", 1u), Pair("second", 1u),
                                Pair("outer", 0u), Pair("first", 1u), Pair("second", 1u)));
}

// More events than a block of the index holds.
TEST(LaneReader, GivesEachEventTheLinksThatLeaveIt) {
  constexpr int kOuter = 1000;
  const index::MadeIndex made(Nested(kOuter));
  const auto lanes = LanesOf(made.index, RowOf(made.index, "main"));
  Durations durations(made.index);
  int launches = 0;
  for (LaneReader reader(made.index, lanes.at(0), Links::kRead); reader.next() != nullptr;
       reader.Advance()) {
    const auto links = reader.next()->links();
    if (made.index.Text(reader.next()->entry().name) != "second") {
      EXPECT_TRUE(links.empty());
      continue;
    }
    ASSERT_EQ(links.size(), 1u);
    const index::Entry kernel = durations.At(links[0].track, links[0].other);
    EXPECT_EQ(made.index.Text(kernel.name), "kernel");
    EXPECT_EQ(kernel.duration_ps, 10 + launches);
    ++launches;
  }
  EXPECT_EQ(launches, kOuter);
}

TEST(Durations, AreThoseOfAnyEventInAnyOrder) {
  const index::MadeIndex made(Nested(300));
  Durations durations(made.index);
  const std::uint32_t track = RowOf(made.index, "Stream #7(Compute)").first_track;
  for (const std::uint64_t ordinal : {0u, 299u, 63u, 64u, 128u, 1u})
    EXPECT_EQ(durations.At(track, ordinal).duration_ps, 10 + static_cast<std::int64_t>(ordinal));
  EXPECT_EQ(durations.At(track, 300).duration_ps, 0);
  EXPECT_EQ(durations.At(track, ~std::uint64_t{0}).duration_ps, 0);
  EXPECT_EQ(durations.At(99, 0).duration_ps, 0);
}

}  // namespace
}  // namespace strobe::tally
