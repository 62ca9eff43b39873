#include "operator/schedule/schedule_times.h"

#include <gmock/gmock.h>

#include "common/base/strings.h"

namespace strobe::schedule {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

const WallTime kCreated = WallTime{std::chrono::seconds(1'730'000'007)};

ScheduleTimes Times(const Timing& timing, const std::string& uid = "uid") {
  auto times = ScheduleTimes::Make(timing, kCreated, uid);
  EXPECT_TRUE(times.ok()) << times.status();
  return *times;
}

TEST(ScheduleTimes, AnIntervalCountsFromTheCreation) {
  const ScheduleTimes times = Times({.interval = 10min});
  EXPECT_EQ(times.Next(kCreated - 1h), kCreated + 10min);
  EXPECT_EQ(times.Next(kCreated), kCreated + 10min);
  EXPECT_EQ(times.Next(kCreated + 10min), kCreated + 20min);
  const auto passed = times.Between(kCreated + 10min, kCreated + 45min);
  EXPECT_EQ(passed.count, 3);
  EXPECT_EQ(passed.last, kCreated + 40min);
  EXPECT_EQ(passed.before_last, kCreated + 30min);
  EXPECT_EQ(times.Between(kCreated, kCreated + 9min).count, 0);
  EXPECT_EQ(times.Between(kCreated + 45min, kCreated).count, 0) << "the clock went back";
}

TEST(ScheduleTimes, JitterDelaysEachTimeAndIsTheSameForEverybody) {
  const Timing timing{.interval = 10min, .jitter = 10min};
  const ScheduleTimes times = Times(timing), again = Times(timing), other = Times(timing, "other");
  WallTime time = kCreated;
  int moved = 0;
  Nanos sum{0};
  for (int i = 1; i <= 1000; ++i) {
    const WallTime next = *times.Next(time);
    EXPECT_GT(next, time);
    EXPECT_GE(next, kCreated + i * 10min);
    EXPECT_LT(next, kCreated + (i + 1) * 10min);
    EXPECT_EQ(again.Next(time), next);
    EXPECT_EQ(times.Between(kCreated, next).count, i);
    EXPECT_EQ(times.Between(kCreated, next - 1s).count, i - 1);
    moved += other.Next(time) != next ? 1 : 0;
    sum += next - (kCreated + i * 10min);
    time = next;
  }
  EXPECT_GT(moved, 900);
  EXPECT_GT(sum, 1000 * 4min);
  EXPECT_LT(sum, 1000 * 6min);
}

TEST(ScheduleTimes, TheNewestOfManyTimesThatHavePassed) {
  const WallTime year = kCreated + 24h * 365;
  const auto each = Times({.cron = "* * * * *"}).Between(kCreated, year);
  EXPECT_EQ(each.count, ScheduleTimes::kMaxCounted);
  EXPECT_EQ(each.last, std::chrono::floor<std::chrono::minutes>(year));
  EXPECT_EQ(each.before_last, std::chrono::floor<std::chrono::minutes>(year) - 1min);
  // Dense, but long ago.
  const auto january = Times({.cron = "* * * 1 *"}).Between(kCreated, year);
  EXPECT_EQ(FormatRfc3339(*january.last), "2025-01-31T23:59:00Z");
  EXPECT_EQ(FormatRfc3339(*january.before_last), "2025-01-31T23:58:00Z");
  const auto monthly = Times({.cron = "@monthly"}).Between(kCreated, year);
  EXPECT_EQ(monthly.count, 12);
  EXPECT_EQ(FormatRfc3339(*monthly.last), "2025-10-01T00:00:00Z");
}

TEST(ScheduleTimes, WhatIsWrongIsNamed) {
  const auto why = [](const Timing& timing) {
    return MessageOf(ScheduleTimes::Make(timing, kCreated, "uid").status());
  };
  EXPECT_THAT(why({}), HasSubstr("exactly one"));
  EXPECT_THAT(why({.cron = "@daily", .interval = 1h}), HasSubstr("exactly one"));
  EXPECT_THAT(why({.cron = "61 * * * *"}), HasSubstr("schedule: the minute"));
  EXPECT_THAT(why({.cron = "0 0 30 2 *"}), HasSubstr("never occurs"));
  EXPECT_THAT(why({.cron = "@daily", .time_zone = "Mars/Base"}),
              HasSubstr("timeZone: \"Mars/Base\""));
  EXPECT_THAT(why({.interval = 4s}), HasSubstr("interval:"));
  EXPECT_THAT(why({.interval = 10s, .jitter = 11s}), HasSubstr("jitter:"));
}

TEST(ScheduleTimes, AreShownInOneLine) {
  EXPECT_EQ((Timing{.cron = "@daily", .time_zone = "Europe/Berlin"}).Text(),
            "@daily Europe/Berlin");
  EXPECT_EQ((Timing{.interval = 90min, .jitter = 5min}).Text(), "every 1h30m, jitter 5m");
}

}  // namespace
}  // namespace strobe::schedule
