#include "operator/core/clock_estimate.h"

#include <gtest/gtest.h>

namespace strobe {
namespace {

using namespace std::chrono_literals;

constexpr WallTime kBefore{1000s}, kStart{1002s}, kAfter{1010s};

TEST(OffsetAt, LiesBetweenTheMeasurementsAroundIt) {
  const ClockOffset then =
      OffsetAt(kStart, {kBefore, 5ms, 60us}, ClockOffset{kAfter, 5100us, 40us});
  EXPECT_EQ(then.at, kStart);
  EXPECT_EQ(then.offset, 5020us);
  EXPECT_EQ(then.error, 160us) << "the larger error, and all that the offset changed by";
}

TEST(OffsetAt, WithoutASecondMeasurementTheClocksMayHaveDrifted) {
  for (const std::optional<ClockOffset>& after :
       {std::optional<ClockOffset>(), std::optional(ClockOffset{kAfter, 9ms, std::nullopt}),
        std::optional(ClockOffset{kBefore, 9ms, 1us})}) {
    const ClockOffset then = OffsetAt(kStart, {kBefore, 5ms, 60us}, after);
    EXPECT_EQ(then.offset, 5ms);
    EXPECT_EQ(then.error, 260us) << "100 us a second";
  }
}

TEST(OffsetAt, TimesOutsideHaveTheNearestOffset) {
  const ClockOffset before{kBefore, 5ms, 60us}, after{kAfter, 6ms, 40us};
  EXPECT_EQ(OffsetAt(kBefore - 1h, before, after).offset, 5ms);
  EXPECT_EQ(OffsetAt(kAfter + 1h, before, after).offset, 6ms);
}

TEST(OffsetAt, AClockThatWasNotMeasuredStaysUnknown) {
  const ClockOffset then =
      OffsetAt(kStart, {kBefore, 0ms, std::nullopt}, ClockOffset{kAfter, 6ms, 40us});
  EXPECT_EQ(then.offset, 0ms);
  EXPECT_FALSE(then.error);
}

}  // namespace
}  // namespace strobe
