#include "collector/digest/launches.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace strobe::digest {
namespace {

// Adds the launches and looks all of them up, and neighbours that are not there. The first of
// several with one id counts.
void ExpectFound(std::uint64_t process, const std::vector<std::int64_t>& ids) {
  Launches launches;
  EXPECT_TRUE(launches.empty());
  std::map<std::int64_t, std::int64_t> expected;
  std::int64_t begin = -5;
  for (const std::int64_t id : ids) {
    begin += (id % 7) * 1'000'000 - 3;
    launches.Add(process, id, begin);
    expected.emplace(id, begin);
  }
  EXPECT_FALSE(launches.empty());
  launches.Sort();
  EXPECT_FALSE(launches.empty());
  for (const auto& [id, at] : expected) {
    ASSERT_EQ(launches.BeginOf(process, id), at) << id;
    for (const std::int64_t other : {id - 1, id + 1}) {
      if (expected.contains(other)) continue;
      ASSERT_EQ(launches.BeginOf(process, other), std::nullopt) << other;
    }
  }
}

TEST(Launches, FewAreFound) {
  Launches none;
  none.Sort();
  EXPECT_EQ(none.BeginOf(0, 1), std::nullopt);
  ExpectFound(0, {7});
  ExpectFound(0, {7, 7, 7});
  ExpectFound(~std::uint64_t{0}, {3, 1, -2, 3, INT64_MAX - 1, INT64_MIN + 1});
}

TEST(Launches, ManyInOrderAreFound) {
  std::vector<std::int64_t> ids;
  for (std::int64_t id = 0; id < 200'000; ++id) ids.push_back(3 * id);
  ExpectFound(0, ids);
  ExpectFound(std::uint64_t{77} << 40, ids);
}

TEST(Launches, ThoseOfManyThreadsAreFound) {
  std::vector<std::int64_t> ids;
  for (std::int64_t thread = 0; thread < 5; ++thread) {
    for (std::int64_t i = 0; i < 40'000; ++i) ids.push_back(2 * (5 * i + thread));
  }
  ExpectFound(0, ids);
}

TEST(Launches, AnyOrderWillDo) {
  std::mt19937_64 random(5);
  std::vector<std::int64_t> ids(150'000);
  for (std::int64_t& id : ids) id = static_cast<std::int64_t>(random() % 100'000) * 2;
  ExpectFound(0, ids);
  for (std::int64_t& id : ids) id = static_cast<std::int64_t>(random() >> 2);
  ExpectFound(12345, ids);
}

TEST(Launches, TheFirstOfEqualOnesCountsAcrossBlocksAndRuns) {
  Launches launches;
  for (std::int64_t i = 0; i < 200'000; ++i) launches.Add(0, i < 31 ? 1 : 2, i);
  launches.Add(0, 1, 999);
  launches.Sort();
  EXPECT_EQ(launches.BeginOf(0, 1), 0);
  EXPECT_EQ(launches.BeginOf(0, 2), 31);
}

}  // namespace
}  // namespace strobe::digest
