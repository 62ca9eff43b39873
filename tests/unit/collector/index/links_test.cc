#include "collector/index/links.h"

#include <gmock/gmock.h>

#include <random>
#include <set>

#include "collector/index/sort_by_key.h"

namespace strobe::index {
namespace {

constexpr std::uint32_t kIn = LinkEnd::kIncoming;

std::multiset<std::array<std::uint32_t, 4>> Join(std::vector<LinkEnd> ends) {
  std::multiset<std::array<std::uint32_t, 4>> links;
  for (const Link& l : JoinEnds(std::move(ends), 2))
    links.insert({l.track, l.ordinal, l.other_track, l.other_ordinal});
  return links;
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
