#include "common/text/plain_text.h"

#include <gtest/gtest.h>

namespace strobe {
namespace {

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

}  // namespace
}  // namespace strobe
