#include "cli/base/progress.h"

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

TEST(ProgressEvent, IsOneObjectOnOneLine) {
  EXPECT_EQ(ProgressEvent(
                {.phase = capture::Phase::kRecording, .matched = 3, .armed = 2, .finished = 1}, 4),
            R"({"attempt":4,"phase":"record","workers":3,"armed":2,"ended":1})");
  EXPECT_EQ(ProgressEvent({.matched = 1, .waits_for = "w0: \"busy\"\nnow"}, 1),
            R"({"attempt":1,"phase":"preflight","workers":1,"armed":0,"ended":0,)"
            R"("waitsFor":"w0: \"busy\"\nnow"})");
}

TEST(RetryEvent, ReplacesWhatIsNoUtf8) {
  EXPECT_EQ(RetryEvent(1, "w0: \xff"), R"({"attempt":1,"phase":"retry","message":"w0: )"
                                       "\xEF\xBF\xBD\"}");
}

}  // namespace
}  // namespace strobe::cli
