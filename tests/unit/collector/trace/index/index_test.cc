#include "collector/trace/index/index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>

#include "collector/trace/index/build.h"
#include "collector/trace/index/chunks.h"
#include "collector/trace/index/window.h"
#include "collector/trace/xplane/builder.h"
#include "collector/trace/xplane/edit.h"
#include "collector/trace/xplane/lanes.h"
#include "tests/fakes/made_index.h"
#include "tests/unit/collector/colliding_names.h"

namespace strobe::index {
namespace {

// Two planes: the host has launches, and a producer with two consumers; the device has kernels.
std::string Job(int launches) {
  xplane::PlaneBuilder host("/host:CPU");
  host.BeginLine(1, "main", 5);
  for (int i = 0; i < launches; ++i) {
    host.AddEvent(host.EventId("cudaLaunchKernel"), i * 1'000'000ll, 300'000);
    host.AddEventStat(host.StatId("correlation_id"), static_cast<std::uint64_t>(i + 1));
  }
  host.BeginLine(2, "pool", 5);
  for (int i = 0; i < 3; ++i) {
    host.AddEvent(host.EventId(i == 0 ? "give" : "take"), i * 1000, 10);
    host.AddEventStat(host.StatId(i == 0 ? "_pt" : "_ct"), std::int64_t{15});
    host.AddEventStat(host.StatId(i == 0 ? "_p" : "_c"), std::int64_t{-77});
  }
  xplane::PlaneBuilder gpu("/device:GPU:0");
  gpu.BeginLine(13, "Stream #13(Compute)", 5);
  for (int i = 0; i < launches; ++i) {
    gpu.AddEvent(gpu.EventId("kernel_" + std::to_string(i % 50)), 500'000 + i * 1'000'000ll,
                 400'000);
    gpu.AddEventStat(gpu.StatId("correlation_id"), static_cast<std::uint64_t>(i + 1));
  }
  return host.Encode() + gpu.Encode();
}

TEST(Index, IdsThatAreChosenToCollideAreRead) {
  const MadeIndex made(CollidingNames());
  ASSERT_TRUE(made.status.ok()) << made.status;
  EXPECT_EQ(made.index.header().events, static_cast<std::uint64_t>(kCollidingIds));
  EXPECT_EQ(made.index.Text(made.index.EntryAt(made.index.tracks()[0], 6)->name), "7");
}

// The names of a plane are in another order each time.
TEST(Index, TheSameTraceHasTheSameIndex) {
  const std::string trace = Job(1000);
  EXPECT_EQ(MadeIndex(trace).view(), MadeIndex(trace).view());
}

TEST(Index, HoldsEveryEventWithItsPlaceInTheTrace) {
  const MadeIndex made(Job(1000), 2);
  ASSERT_TRUE(made.status.ok()) << made.status;
  EXPECT_EQ(made.index.header().events, 2003u);
  std::uint64_t seen = 0;
  for (const xplane::Plane& plane : made.space.planes) {
    for (const xplane::Line& line : plane.lines) {
      const auto row = std::find_if(made.index.rows().begin(), made.index.rows().end(),
                                    [&](auto& r) { return r.id == line.id; });
      ASSERT_NE(row, made.index.rows().end());
      const Track& track = made.index.tracks()[row->first_track];
      std::uint64_t ordinal = 0;
      const std::vector<xplane::Placed> events = *xplane::PlaceEvents(line);
      for (const xplane::Placed& event : events) {
        const std::optional<Entry> entry = made.index.EntryAt(track, ordinal++);
        ASSERT_TRUE(entry.has_value());
        EXPECT_EQ(entry->begin_ps, event.begin_ps);
        EXPECT_EQ(entry->end_ps(), event.end_ps);
        EXPECT_EQ(made.index.Text(entry->name), plane.NameOf(event.event));
        EXPECT_EQ(made.trace.data() + entry->offset, event.event.bytes.data());
        ++seen;
      }
      EXPECT_FALSE(made.index.EntryAt(track, ordinal).has_value());
    }
  }
  EXPECT_EQ(seen, 2003u);
}

TEST(Index, CountsNames) {
  const MadeIndex made(Job(1000));
  std::uint64_t launches = 0;
  for (std::uint32_t id = 0; id < made.index.texts(); ++id) {
    if (made.index.Text(id) == "cudaLaunchKernel") launches += made.index.TextCount(id);
  }
  EXPECT_EQ(launches, 1000u);
}

TEST(Index, ArrowsLeadBothWays) {
  const MadeIndex made(Job(1000), 2);
  const auto row_of = [&](std::string_view name) {
    for (const Row& row : made.index.rows()) {
      if (made.index.Text(row.name) == name) return row;
    }
    return Row{};
  };
  const Track& launches = made.index.tracks()[row_of("main").first_track];
  const std::uint32_t kernels = row_of("Stream #13(Compute)").first_track;
  std::uint32_t found = 0;
  made.index.ForEachLink(launches, false, 100, 900, [&](const LinkTarget& link) {
    EXPECT_EQ(link.track, kernels);
    EXPECT_EQ(link.other, link.ordinal);
    ++found;
  });
  EXPECT_EQ(found, 800u);
  made.index.ForEachLink(made.index.tracks()[kernels], true, 999, 1000,
                         [&](const LinkTarget& link) {
                           EXPECT_EQ(link.other, 999u);
                           ++found;
                         });
  EXPECT_EQ(found, 801u);
  std::multiset<std::uint32_t> taken;
  made.index.ForEachLink(made.index.tracks()[row_of("pool").first_track], false, 0, 1,
                         [&](const LinkTarget& link) { taken.insert(link.other); });
  EXPECT_THAT(taken, testing::ElementsAre(1u, 2u));
}

// What a large trace's index is made in must not show in it.
TEST(Index, IsTheSameWhetherItWasMadeInMemoryOrInAFile) {
  const std::string trace = Job(200'000);  // Several chunks.
  const absl::StatusOr<xplane::Space> space = xplane::Space::Read(trace);
  ASSERT_TRUE(space.ok());
  const auto build = [&](const std::string& directory) {
    std::string bytes;
    const absl::Status built = BuildIndex(
        trace, *space, {.threads = 2, .spill_directory = directory, .min_spilled_events = 1},
        [&](std::string_view piece) {
          bytes += piece;
          return absl::OkStatus();
        });
    EXPECT_TRUE(built.ok()) << built;
    return bytes;
  };
  const std::string in_memory = build("");
  EXPECT_EQ(build("/tmp"), in_memory);
  EXPECT_EQ(build("/nowhere"), in_memory) << "it is only made in another way";
}

TEST(Spill, GivesRoomAndTakesItBack) {
  const auto spill = Spill::Create("/tmp");
  ASSERT_TRUE(spill.ok()) << spill.status();
  std::set<char*> pieces;
  for (int i = 0; i < 300; ++i) {
    char* piece = (*spill)->Take();
    ASSERT_NE(piece, nullptr);
    std::memset(piece, i, Spill::kPiece);
    EXPECT_TRUE(pieces.insert(piece).second) << "given out twice";
  }
  char* last = *pieces.rbegin();
  (*spill)->Give(last);
  EXPECT_EQ((*spill)->Take(), last);
}

// Process b also has launches with the ids 1 to 10, of kernels that were not recorded.
TEST(Index, ArrowsStayWithinTheirProcess) {
  xplane::PlaneBuilder other("/host:CPU [b]");
  other.BeginLine(1, "other", 5);
  for (std::int64_t id = 1; id <= 10; ++id) {
    other.AddEvent(other.EventId("cudaLaunchKernel"), id * 1'000'000, 300'000);
    other.AddEventStat(other.StatId("correlation_id"), id);
  }
  std::string trace;
  ASSERT_TRUE(xplane::AppendXSpace(Job(10), "a", trace).ok());
  const MadeIndex made(trace + other.Encode());
  std::map<std::string, int> links;
  for (const Row& row : made.index.rows()) {
    const Track& track = made.index.tracks()[row.first_track];
    made.index.ForEachLink(track, false, 0, 100, [&](const LinkTarget&) {
      ++links[std::string(made.index.Text(row.name))];
    });
  }
  EXPECT_THAT(links, testing::ElementsAre(testing::Pair("main", 10), testing::Pair("pool", 2)));
}

TEST(Index, PlanesOfOneNameAndIdKeepTheirOwnDerivedLines) {
  std::string trace;
  for (const std::string_view op : {"a", "b"}) {
    xplane::PlaneBuilder gpu("/device:GPU:0", 1);
    gpu.BeginLine(13, "Stream #13(Compute)", 0);
    gpu.AddEvent(gpu.EventId("kernel"), 1000, 1000);
    gpu.AddEventStat(gpu.StatId("hlo_op"), op);
    trace += gpu.Encode();
  }
  const MadeIndex made(trace);
  std::vector<std::string> ops;
  for (const Row& row : made.index.rows()) {
    if (made.index.Text(row.name) != "XLA Ops") continue;
    const std::optional<Entry> entry = made.index.EntryAt(made.index.tracks()[row.first_track], 0);
    ASSERT_TRUE(entry.has_value());
    ops.push_back(std::to_string(row.plane) + std::string(made.index.Text(entry->name)));
  }
  EXPECT_THAT(ops, testing::ElementsAre("0a", "1b"));
}

TEST(Index, IsRefusedWhenItIsNone) {
  const MadeIndex made(Job(10));
  EXPECT_FALSE(Index::Open("").ok());
  EXPECT_FALSE(Index::Open(made.view().substr(0, 100)).ok());
  EXPECT_FALSE(Index::Open(made.view().substr(0, made.size - 64)).ok());
  std::vector<std::uint64_t> other = made.words;
  other[1] += 1;  // The version.
  EXPECT_FALSE(Index::Open({reinterpret_cast<const char*>(other.data()), made.size}).ok());
}

// What opens an index whose tables were changed by `change` says.
template <typename T, typename Change>
absl::Status OpenChanged(const MadeIndex& made, std::uint64_t offset, const Change& change) {
  std::vector<std::uint64_t> words = made.words;
  change(reinterpret_cast<T*>(reinterpret_cast<char*>(words.data()) + offset));
  return Index::Open({reinterpret_cast<const char*>(words.data()), made.size}).status();
}

TEST(Index, TablesThatCannotBeAreRefused) {
  const MadeIndex made(Job(10));
  const auto& at = made.index.header().extents;
  ASSERT_EQ(made.index.rows().size(), 3u);
  EXPECT_TRUE(OpenChanged<Row>(made, at[kRows].offset, [](Row*) {}).ok());
  EXPECT_TRUE(absl::IsDataLoss(
      OpenChanged<Header>(made, 0, [](Header* header) { header->begin_ps = header->end_ps + 1; })));
  EXPECT_TRUE(absl::IsDataLoss(OpenChanged<Row>(made, at[kRows].offset, [](Row* rows) {
    rows[1].first_track = rows[0].first_track;
  }))) << "two rows with the same tracks";
  EXPECT_TRUE(absl::IsDataLoss(OpenChanged<Row>(made, at[kRows].offset, [](Row* rows) {
    rows[0].tracks = 3;
  }))) << "a row with those of all";
  EXPECT_TRUE(absl::IsDataLoss(OpenChanged<Track>(made, at[kTracks].offset, [](Track* tracks) {
    tracks[0].row = 2;
  }))) << "a track of a row that does not have it";
}

TEST(Index, AnotherTraceHasAnotherSource) {
  EXPECT_EQ(SourceOf(Job(10)), SourceOf(Job(10)));
  EXPECT_NE(SourceOf(Job(10)), SourceOf(Job(11)));
  std::string large(10 << 20, 'x');
  const Source before = SourceOf(large);
  large[0] = 'y';
  EXPECT_NE(SourceOf(large), before);
}

TEST(Index, ATraceInAStoreIsKnownByItsNameVersionAndEnds) {
  std::string trace = Job(10);
  EXPECT_EQ(SourceOf(trace, ""), SourceOf(trace));
  const Source before = SourceOf(trace, "s3://b/w v1");
  EXPECT_EQ(SourceOf(trace, "s3://b/w v1"), before);
  EXPECT_NE(SourceOf(trace, "s3://b/w v2"), before);
  EXPECT_NE(SourceOf(trace, "s3://b/x v1"), before);
  ++trace.back();
  EXPECT_NE(SourceOf(trace, "s3://b/w v1"), before);
}

TEST(Index, AnEmptyTraceHasAnEmptyIndex) {
  const MadeIndex made("");
  ASSERT_TRUE(made.status.ok());
  EXPECT_EQ(made.index.header().events, 0u);
  EXPECT_TRUE(made.index.rows().empty());
}

TEST(Index, DamageReadsAsNonsenseButNeverOutside) {
  std::mt19937 random(static_cast<unsigned>(testing::UnitTest::GetInstance()->random_seed()));
  const MadeIndex made(Job(700));
  for (int round = 0; round < 300; ++round) {
    std::vector<std::uint64_t> damaged = made.words;
    for (int i = 0; i < 20; ++i) {
      // Half of the bit flips hit the tables at the start, where damage has the largest effect.
      const std::size_t within =
          i % 2 == 0 ? damaged.size() : std::min<std::size_t>(damaged.size(), 300);
      damaged[random() % within] ^= std::uint64_t{1} << random() % 64;
    }
    const absl::StatusOr<Index> index =
        Index::Open({reinterpret_cast<const char*>(damaged.data()), made.size});
    if (index.ok()) AskAll(*index);
  }
}

TEST(EventAt, GivesTheBytesThatTheTraceHasThere) {
  xplane::PlaneBuilder host("/host:CPU");
  host.BeginLine(1, "main", 0);
  for (int i = 0; i < 3; ++i) {
    host.AddEvent(host.EventId("work"), i * 1000, 10);
    // The second one is longer than 127 bytes, so that its length takes two.
    host.AddEventStat(host.StatId("text"), std::string_view(std::string(i == 1 ? 300 : 3, 'x')));
  }
  const MadeIndex made(host.Encode());
  ASSERT_TRUE(made.status.ok()) << made.status;
  const std::vector<xplane::Placed> events =
      *xplane::PlaceEvents(made.space.planes.at(0).lines.at(0));
  ASSERT_EQ(events.size(), 3u);
  for (std::uint64_t i = 0; i < events.size(); ++i) {
    const auto entry = made.index.EntryAt(made.index.tracks()[0], i);
    ASSERT_TRUE(entry.has_value());
    const auto bytes = EventAt(made.trace, 0, entry->offset);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_EQ(*bytes, events[i].event.bytes);
    EXPECT_EQ(*EventAt(std::string_view(made.trace).substr(2), 2, entry->offset), *bytes);
  }
}

TEST(EventAt, RefusesPlacesOutside) {
  const std::string bytes("\x7f\x01", 2);
  for (const std::uint64_t place :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{3}, ~std::uint64_t{0}})
    EXPECT_TRUE(absl::IsDataLoss(EventAt(bytes, 0, place).status())) << place;
  EXPECT_TRUE(absl::IsDataLoss(EventAt(bytes, 1, 1).status()));
  EXPECT_EQ(*EventAt(std::string("\x01x", 2), 0, 1), "x");
}

}  // namespace
}  // namespace strobe::index
