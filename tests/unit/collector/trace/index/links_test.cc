#include "collector/trace/index/links.h"

#include <gmock/gmock.h>

#include <random>
#include <set>

#include "collector/trace/index/sort_by_key.h"

namespace strobe::index {
namespace {

constexpr std::uint32_t kIn = LinkEnd::kIncoming;

// In these tests, an event of any track begins at its ordinal.
std::int64_t ByOrdinal(std::uint32_t /*track*/, std::uint32_t ordinal) { return ordinal; }

std::multiset<std::array<std::uint32_t, 4>> Join(std::vector<LinkEnd> ends) {
  std::vector<Link> links;
  JoinEnds(ends, 2, ByOrdinal, links);
  std::multiset<std::array<std::uint32_t, 4>> joined;
  for (const Link& l : links) joined.insert({l.track, l.ordinal, l.other_track, l.other_ordinal});
  return joined;
}

using testing::UnorderedElementsAre;
using Four = std::array<std::uint32_t, 4>;

TEST(Links, OneLeadsToMany) {
  EXPECT_THAT(Join({{5, 0, 3}, {5, 1 | kIn, 9}, {5, 2 | kIn, 4}, {6, 0, 4}, {7, 1 | kIn, 1}}),
              UnorderedElementsAre(Four{0, 3, 1, 9}, Four{0, 3, 2, 4}));
}

TEST(Links, NumbersThatAreUsedAgainPairInTheOrderOfTime) {
  EXPECT_THAT(Join({{5, 0, 20}, {5, 1 | kIn, 2}, {5, 0, 10}, {5, 1 | kIn, 1}}),
              UnorderedElementsAre(Four{0, 10, 1, 1}, Four{0, 20, 1, 2}));
}

// Regression: ends were paired by their tracks' numbers.
TEST(Links, NumbersThatAreUsedAgainOnOtherTracksPairInTheOrderOfTime) {
  EXPECT_THAT(Join({{5, 2, 10}, {5, 4 | kIn, 20}, {5, 1, 30}, {5, 3 | kIn, 40}}),
              UnorderedElementsAre(Four{2, 10, 4, 20}, Four{1, 30, 3, 40}));
}

// A device's clock may be off: the second consumer seems to begin before its producer.
TEST(Links, NumbersThatAreUsedAgainPairAlsoIfAClockIsOff) {
  EXPECT_THAT(Join({{5, 0, 10}, {5, 1 | kIn, 20}, {5, 0, 30}, {5, 1 | kIn, 29}}),
              UnorderedElementsAre(Four{0, 10, 1, 20}, Four{0, 30, 1, 29}));
}

TEST(Links, TheMiddleOfAFlowLeadsFromItsBeginToItsEnd) {
  const auto flow = UnorderedElementsAre(Four{1, 100, 0, 200}, Four{0, 200, 2, 300});
  EXPECT_THAT(Join({{5, 1, 100}, {5, 0 | kIn, 200}, {5, 0, 200}, {5, 2 | kIn, 300}}), flow);
  EXPECT_THAT(Join({{5, 0, 200}, {5, 2 | kIn, 300}, {5, 0 | kIn, 200}, {5, 1, 100}}), flow);
  // The flow may have no end, and an event may be alone.
  EXPECT_THAT(Join({{5, 1, 100}, {5, 0 | kIn, 200}, {5, 0, 200}}),
              UnorderedElementsAre(Four{1, 100, 0, 200}));
  EXPECT_THAT(Join({{5, 0 | kIn, 200}, {5, 0, 200}}), testing::IsEmpty());
}

TEST(Links, EachConsumerHasTheLatestProducerBeforeIt) {
  EXPECT_THAT(Join({{5, 0, 10}, {5, 1 | kIn, 11}, {5, 2 | kIn, 12}, {5, 0, 20}, {5, 1 | kIn, 21}}),
              UnorderedElementsAre(Four{0, 10, 1, 11}, Four{0, 10, 2, 12}, Four{0, 20, 1, 21}));
}

std::string Bytes(const LinkLists& lists) {
  std::string all;
  for (const std::string_view chunk : lists.data.all()) all += chunk;
  return all;
}

// Memory is bounded by joining a part of the ids at a time. The result must not depend on it.
TEST(JoinLines, GivesTheSameInPartsAsInOne) {
  constexpr std::uint32_t kLines = 5, kEnds = 40'000;
  const auto join = [&](std::size_t at_once) {
    std::mt19937_64 random(7);
    std::vector<PackedEnds> packed(kLines);
    std::vector<LineEnds> lines;
    for (std::uint32_t line = 0; line < kLines; ++line) {
      if (line % 2 == 0) packed[line].Split();
      for (std::uint32_t i = 0; i < kEnds; ++i) {
        // Lines 0 and 1 produce what lines 2 and 3 consume. Line 4 has ends without a partner.
        const std::uint64_t id = (line == 4 ? 1ull << 50 : (line % 2) * 1'000'000ull) + i;
        packed[line].Add({id, static_cast<std::uint32_t>(random() % 3) | (line >= 2 ? kIn : 0), i});
      }
      lines.push_back({&packed[line], line * 3});
    }
    JoinedLinks joined = JoinLines(lines, kLines * 3, 2, ByOrdinal, at_once);
    EXPECT_EQ(joined.outs.first_block.size(), kLines * 3 + 1);
    return joined;
  };
  const JoinedLinks whole = join(kMaxEndsAtOnce);
  std::size_t links = 0;
  for (const LinkBlock& block : whole.outs.blocks) links += block.links;
  EXPECT_EQ(links, 2 * kEnds);
  for (const std::size_t at_once : {std::size_t{1}, std::size_t{20'000}, std::size_t{70'000}}) {
    const JoinedLinks parts = join(at_once);
    EXPECT_EQ(Bytes(parts.outs), Bytes(whole.outs)) << at_once;
    EXPECT_EQ(Bytes(parts.ins), Bytes(whole.ins)) << at_once;
    EXPECT_EQ(parts.outs.first_block, whole.outs.first_block) << at_once;
    EXPECT_EQ(parts.ins.first_block, whole.ins.first_block) << at_once;
  }
}

TEST(SortByKey, SortsWhateverComes) {
  std::mt19937_64 random(static_cast<unsigned>(testing::UnitTest::GetInstance()->random_seed()));
  for (int round = 0; round < 40; ++round) {
    const unsigned bits = 1 + static_cast<unsigned>(random() % 64);
    std::vector<std::uint64_t> values(random() % 30'000);
    for (std::uint64_t& value : values) value = random() >> (64 - bits);
    std::vector<std::uint64_t> expected = values;
    std::sort(expected.begin(), expected.end());
    SortByKey(values, 2, [](std::uint64_t value) { return value; });
    ASSERT_EQ(values, expected) << bits;
  }
}

}  // namespace
}  // namespace strobe::index
