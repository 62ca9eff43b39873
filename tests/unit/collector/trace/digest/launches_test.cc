#include "collector/trace/digest/launches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace strobe::digest {
namespace {

// Adds the launches and looks all of them up, and neighbours that are not there. Of several
// with one id, the first begins before all work.
void ExpectFound(std::uint64_t process, const std::vector<std::int64_t>& ids) {
  Launches launches;
  EXPECT_TRUE(launches.empty());
  std::map<std::int64_t, std::int64_t> expected;
  std::int64_t begin = -5;
  for (const std::int64_t id : ids) {
    begin += (id % 7) * 1'000'000 - 3;
    launches.Add(process, id, begin);
    const auto first = expected.emplace(id, begin).first;
    first->second = std::min(first->second, begin);
  }
  EXPECT_FALSE(launches.empty());
  launches.Sort();
  EXPECT_FALSE(launches.empty());
  for (const auto& [id, at] : expected) {
    ASSERT_EQ(launches.BeginOf(process, id, INT64_MIN), at) << id;
    for (const std::int64_t other : {id - 1, id + 1}) {
      if (expected.contains(other)) continue;
      ASSERT_EQ(launches.BeginOf(process, other, 0), std::nullopt) << other;
    }
  }
}

TEST(Launches, FewAreFound) {
  Launches none;
  none.Sort();
  EXPECT_EQ(none.BeginOf(0, 1, 0), std::nullopt);
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

// Compared with a search through all launches.
TEST(Launches, OfLaunchesWithOneIdTheLastBeforeTheWorkCounts) {
  std::mt19937_64 random(9);
  for (const std::int64_t ids : {1, 3, 50'000}) {
    Launches launches;
    std::map<std::int64_t, std::set<std::int64_t>> begins;
    for (int i = 0; i < 150'000; ++i) {
      const auto id = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(ids));
      const auto begin = static_cast<std::int64_t>(random() % 1'000'000);
      launches.Add(7, id, begin);
      begins[id].insert(begin);
    }
    launches.Sort();
    EXPECT_TRUE(launches.Knows(7));
    EXPECT_FALSE(launches.Knows(8));
    for (int i = 0; i < 2000; ++i) {
      const auto id = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(ids));
      const auto at = static_cast<std::int64_t>(random() % 1'000'000) - 1000;
      const auto after = begins[id].upper_bound(at);
      if (begins[id].empty()) continue;
      const std::int64_t expected = after == begins[id].begin() ? *after : *std::prev(after);
      ASSERT_EQ(launches.BeginOf(7, id, at), expected) << id << " at " << at;
    }
  }
}

}  // namespace
}  // namespace strobe::digest
