#include "common/text/parse_tuple.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace strobe {
namespace {

TEST(ParseTuple, ReadsNumbersWithTheirSeparators) {
  std::uint32_t row = 0, first = 0, last = 0;
  std::int64_t begin = 0;
  ASSERT_TRUE(ParseTuple("3:0-2:-500", ":-:", row, first, last, begin));
  EXPECT_EQ(row, 3u);
  EXPECT_EQ(first, 0u);
  EXPECT_EQ(last, 2u);
  EXPECT_EQ(begin, -500);
  ASSERT_TRUE(ParseTuple("4294967295", "", row));
  EXPECT_EQ(row, 4294967295u);
}

TEST(ParseTuple, TakesTheWholeTextOnly) {
  std::uint32_t a = 0, b = 0;
  for (const char* wrong : {"", "1", "1:", ":1", "1:2:", "1:2 ", " 1:2", "1: 2", "1-2", "-1:2",
                            "+1:2", "1:-2", "1:4294967296", "1:2x", "0x1:2", "1::2"})
    EXPECT_FALSE(ParseTuple(wrong, ":", a, b)) << wrong;
}

}  // namespace
}  // namespace strobe
