#include "operator/trigger/recent_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace strobe::trigger {
namespace {

TEST(RecentMap, KeepsWhatWasPutLast) {
  RecentMap<int> map(10);
  for (int i = 0; i < 1000; ++i) {
    map.Put(std::to_string(i), i);
    map.Put("again", i);
    ASSERT_LE(map.size(), 20u);
    ASSERT_EQ(*map.Find(std::to_string(i)), i);
    ASSERT_EQ(*map.Find("again"), i) << "the newest value counts";
    ASSERT_NE(map.Find(std::to_string(std::max(i - 8, 0))), nullptr);
  }
  EXPECT_EQ(map.Find("1"), nullptr);
}

}  // namespace
}  // namespace strobe::trigger
