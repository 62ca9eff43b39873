#include "cli/base/progress_text.h"

#include <gtest/gtest.h>

namespace strobe::cli {
namespace {

TEST(OnOneLine, SeparatesLinesBySemicolons) {
  EXPECT_EQ(OnOneLine("Recording: x\n  Armed (1): a\n  Ok (2): b, c"),
            "Recording: x; Armed (1): a; Ok (2): b, c");
  EXPECT_EQ(OnOneLine("one"), "one");
}

TEST(CutToScreen, KeepsWhatFits) {
  EXPECT_EQ(CutToScreen("abcdef\nab\nabc", 2, 4), "abcd\nab");
  EXPECT_EQ(CutToScreen("ä", 1, 1), "") << "never a part of a character";
}

}  // namespace
}  // namespace strobe::cli
