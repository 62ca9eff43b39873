#include "common/text/utf8.h"

#include <gtest/gtest.h>

namespace strobe {
namespace {

TEST(CutUtf8, KeepsValidTextAsItIs) {
  EXPECT_EQ(CutUtf8("", 10), "");
  EXPECT_EQ(CutUtf8("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", 100),
            "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
}

TEST(CutUtf8, NeverCutsWithinACharacter) {
  const std::string euro = "a\xe2\x82\xac";
  EXPECT_EQ(CutUtf8(euro, 4), euro);
  for (const std::size_t max_bytes : {1u, 2u, 3u}) EXPECT_EQ(CutUtf8(euro, max_bytes), "a");
}

TEST(CutUtf8, ReplacesEveryInvalidByte) {
  EXPECT_EQ(CutUtf8("\xff", 10), "\xef\xbf\xbd");
  EXPECT_EQ(CutUtf8("a\xe2\x82", 10), "a\xef\xbf\xbd\xef\xbf\xbd") << "a character cut by others";
  EXPECT_EQ(CutUtf8("\xc0\x80", 10), "\xef\xbf\xbd\xef\xbf\xbd") << "overlong";
  EXPECT_EQ(CutUtf8("\xed\xa0\x80x", 100), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdx") << "surrogate";
}

TEST(CutUtf8, NeverExceedsTheBoundAlsoByReplacements) {
  const std::string hostile(1000, '\xff');
  for (std::size_t max_bytes = 0; max_bytes < 20; ++max_bytes)
    EXPECT_LE(CutUtf8(hostile, max_bytes).size(), max_bytes);
}

}  // namespace
}  // namespace strobe
