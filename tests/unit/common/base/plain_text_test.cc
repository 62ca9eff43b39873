#include "common/base/plain_text.h"

#include <gtest/gtest.h>

namespace strobe {
namespace {

TEST(WithoutControls, LeavesNothingThatMovesACursor) {
  EXPECT_EQ(WithoutControls("a\033[2Jb\r\nc\x7f\tä\xc2\x9b"
                            "5m"),
            "a [2Jb  c  ä 5m");
  EXPECT_EQ(WithoutControls(""), "");
}

}  // namespace
}  // namespace strobe
