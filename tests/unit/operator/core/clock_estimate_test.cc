#include "operator/core/clock_estimate.h"

#include <gtest/gtest.h>

namespace strobe {
namespace {

using namespace std::chrono_literals;

constexpr WallTime kMeasured{1000s}, kBegun{1002s}, kMeasuredAgain{1010s};

TEST(OffsetAt, LiesBetweenTheMeasurementsAroundIt) {
  const ClockOffset then =
      OffsetAt(kBegun, {kMeasured, 5ms, 60us}, ClockOffset{kMeasuredAgain, 5100us, 40us});
  EXPECT_EQ(then.at, kBegun);
  EXPECT_EQ(then.offset, 5020us);
  EXPECT_EQ(then.error, 160us) << "the larger error, and all that the offset changed by";
}

TEST(OffsetAt, WithoutASecondMeasurementTheClocksMayHaveDrifted) {
  for (const std::optional<ClockOffset>& after :
       {std::optional<ClockOffset>(), std::optional(ClockOffset{kMeasuredAgain, 9ms, std::nullopt}),
        std::optional(ClockOffset{kMeasured, 9ms, 1us})}) {
    const ClockOffset then = OffsetAt(kBegun, {kMeasured, 5ms, 60us}, after);
    EXPECT_EQ(then.offset, 5ms);
    EXPECT_EQ(then.error, 260us) << "100 us a second";
  }
}

TEST(OffsetAt, ASecondMeasurementThatTellsLessDoesNotCount) {
  const ClockOffset then =
      OffsetAt(kBegun, {kMeasured, 5ms, 60us}, ClockOffset{kMeasuredAgain, 90ms, 300ms});
  EXPECT_EQ(then.offset, 5ms);
  EXPECT_EQ(then.error, 260us);
}

TEST(OffsetAt, TimesOutsideHaveTheNearestOffset) {
  const ClockOffset before{kMeasured, 5ms, 60us}, after{kMeasuredAgain, 6ms, 40us};
  EXPECT_EQ(OffsetAt(kMeasured - 1h, before, after).offset, 5ms);
  EXPECT_EQ(OffsetAt(kMeasuredAgain + 1h, before, after).offset, 6ms);
}

TEST(OffsetAt, AClockThatWasNotMeasuredStaysUnknown) {
  const ClockOffset then =
      OffsetAt(kBegun, {kMeasured, 0ms, std::nullopt}, ClockOffset{kMeasuredAgain, 6ms, 40us});
  EXPECT_EQ(then.offset, 0ms);
  EXPECT_FALSE(then.error);
}

}  // namespace
}  // namespace strobe
