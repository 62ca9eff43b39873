#include "common/text/name_rules.h"

#include <gtest/gtest.h>

namespace strobe {
namespace {

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
