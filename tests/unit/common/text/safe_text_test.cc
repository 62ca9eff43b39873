#include "common/text/safe_text.h"

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

TEST(WithoutControls, LeavesNothingThatMovesACursor) {
  EXPECT_EQ(WithoutControls("a\033[2Jb\r\nc\x7f\tä\xc2\x9b"
                            "5m"),
            "a [2Jb  c  ä 5m");
  EXPECT_EQ(WithoutControls(""), "");
}

TEST(WithoutControls, LeavesNothingThatTurnsTextAround) {
  EXPECT_EQ(WithoutControls("a\u202eb\u2066c\u2069d"), "a b c d");
  EXPECT_EQ(WithoutControls("\u2029\u202f\u2065\u206a\u4e2d"), "\u2029\u202f\u2065\u206a\u4e2d");
  EXPECT_EQ(WithoutControls("\xe2\x80"), "\xe2\x80") << "a character that is cut";
}

TEST(IsSafeName, RefusesWhatCouldClimbOrHide) {
  EXPECT_TRUE(IsSafeName("2026_11_21_capture-1.x"));
  for (const char* text : {"", ".", "..", ".hidden", "a/b", "a\\b", "a b", "a:b", "\n", "\xc3\xa4"})
    EXPECT_FALSE(IsSafeName(text)) << text;
  EXPECT_FALSE(IsSafeName(std::string(300, 'a')));
}

TEST(ToSafeName, IsSafeAndReadable) {
  EXPECT_EQ(ToSafeName("10.0.0.1:9012"), "10.0.0.1_9012");
  for (const char* text : {"", "..", "../../etc/passwd", "\xff\xfe"})
    EXPECT_TRUE(IsSafeName(ToSafeName(text))) << text;
}

}  // namespace
}  // namespace strobe
