#include "common/base/clock.h"

#include <gtest/gtest.h>

namespace strobe {
namespace {

using namespace std::chrono_literals;

TEST(Rfc3339, RoundTrips) {
  const WallTime time = WallTime{1'795'234'104s} + 123456789ns;
  EXPECT_EQ(FormatRfc3339(time), "2026-11-21T04:08:24Z");
  EXPECT_EQ(FormatRfc3339(time, 6), "2026-11-21T04:08:24.123456Z");
  WallTime parsed{};
  ASSERT_TRUE(ParseRfc3339(FormatRfc3339(time, 9), parsed));
  EXPECT_EQ(parsed, time);
  EXPECT_FALSE(ParseRfc3339("yesterday", parsed));
  for (const char* odd : {"9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "infinite-future"})
    EXPECT_FALSE(ParseRfc3339(odd, parsed)) << odd;
}

TEST(SystemClock, MonotonicNeverGoesBack) {
  const SystemClock clock;
  const MonoTime first = clock.MonoNow();
  EXPECT_GE(clock.MonoNow(), first);
}

}  // namespace
}  // namespace strobe
