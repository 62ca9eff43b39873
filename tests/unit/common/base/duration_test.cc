#include "common/base/duration.h"

#include <gtest/gtest.h>

namespace strobe {
namespace {

using namespace std::chrono_literals;

TEST(ParseDuration, TakesWhatPeopleWrite) {
  EXPECT_EQ(*ParseDuration("2s"), 2s);
  EXPECT_EQ(*ParseDuration("500ms"), 500ms);
  EXPECT_EQ(*ParseDuration("1m30s"), 90s);
  EXPECT_EQ(*ParseDuration("1.5h"), 90min);
  EXPECT_EQ(*ParseDuration("0"), 0s);
}

TEST(ParseDuration, RefusesTheRestAndSaysHowToWriteIt) {
  for (const char* text : {"", "2", "2 s", "s", "-1s", "inf", "1d", "two"}) {
    const auto parsed = ParseDuration(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_NE(parsed.status().message().find("such as 2s"), std::string::npos);
  }
}

TEST(ParseDuration, WhatIsLongerThanACenturyDoesNotOverflow) {
  for (const char* text : {"9999999h", "876000h", "99999999999s", "2000000h2000000h"})
    EXPECT_EQ(*ParseDuration(text), kMaxDuration) << text;
  const WallTime now{1'790'000'000s};
  EXPECT_GT(now + *ParseDuration("9999999h"), now);
  EXPECT_GT(now + 2 * kMaxDuration, now);
}

TEST(FormatDuration, UsesTheUnitThatFits) {
  EXPECT_EQ(FormatDuration(0s), "0s");
  EXPECT_EQ(FormatDuration(250us), "250us");
  EXPECT_EQ(FormatDuration(-81300ns), "-81.3us");
  EXPECT_EQ(FormatDuration(11560ms), "11.6s");
  EXPECT_EQ(FormatDuration(7ns), "7ns");
  EXPECT_EQ(FormatDuration(90500ms), "1m30s");
  EXPECT_EQ(FormatDuration(10min), "10m");
}

}  // namespace
}  // namespace strobe
