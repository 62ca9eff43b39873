#include "operator/core/clock_estimate.h"

#include <gtest/gtest.h>

namespace strobe {
namespace {

using namespace std::chrono_literals;

constexpr WallTime kMeasured{1000s}, kBegun{1002s}, kMeasuredAgain{1010s};

void ExpectNear(const ClockOffset& told, Nanos offset, Nanos error) {
  EXPECT_NEAR(static_cast<double>((told.offset - offset).count()), 0, 1000);
  ASSERT_TRUE(told.error);
  EXPECT_NEAR(static_cast<double>((*told.error - error).count()), 0, 1000);
}

TEST(OffsetAt, LiesBetweenTheMeasurementsAroundIt) {
  const ClockOffset then =
      OffsetAt(kBegun, {kMeasured, 5ms, 6us}, ClockOffset{kMeasuredAgain, 5100us, 4us});
  EXPECT_EQ(then.at, kBegun);
  SCOPED_TRACE("the larger error, and all that the offset changed by");
  ExpectNear(then, 5020us, 106us);
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

TEST(OffsetAt, AMeasurementThatTellsLittleHardlyCounts) {
  ExpectNear(OffsetAt(kBegun, {kMeasured, 5ms, 60us}, ClockOffset{kMeasuredAgain, 90ms, 300ms}),
             5ms, 260us);
  SCOPED_TRACE("200 us, and eight seconds of drift");
  ExpectNear(OffsetAt(kBegun, {kMeasured, 5ms, 40ms}, ClockOffset{kMeasuredAgain, 30ms, 200us}),
             30ms - 13us, 1013us);
}

TEST(OffsetAt, BothMeasurementsMustBeTrue) {
  // The first one leaves up to 3.2 ms, the second one at least 2.8 ms.
  const ClockOffset then =
      OffsetAt(kBegun, {kMeasured, 0ms, 3ms}, ClockOffset{kMeasuredAgain, 6600us, 3ms});
  EXPECT_LE(then.offset - *then.error, 2800us);
  EXPECT_GE(then.offset + *then.error, 3200us);
  EXPECT_LE(then.error, 400us);
}

TEST(OffsetAt, AClockThatWasPulledLiesBetween) {
  const ClockOffset then =
      OffsetAt(kBegun, {kMeasured, 5ms, 60us}, ClockOffset{kMeasuredAgain, 50ms, 60us});
  ExpectNear(then, 14ms + 96500ns, 45060us);
}

TEST(OffsetAt, TimesOutsideHaveTheNearestOffset) {
  const ClockOffset before{kMeasured, 5ms, 6us}, after{kMeasuredAgain, 6ms, 4us};
  EXPECT_LE(std::chrono::abs(OffsetAt(kMeasured - 1h, before, after).offset - 5ms), 1us);
  EXPECT_LE(std::chrono::abs(OffsetAt(kMeasuredAgain + 1h, before, after).offset - 6ms), 1us);
  EXPECT_GE(OffsetAt(kMeasuredAgain + 1h, before, after).error, 360ms) << "an hour's drift";
}

TEST(OffsetAt, AClockThatWasNotMeasuredStaysUnknown) {
  const ClockOffset then =
      OffsetAt(kBegun, {kMeasured, 0ms, std::nullopt}, ClockOffset{kMeasuredAgain, 6ms, 40us});
  EXPECT_EQ(then.offset, 0ms);
  EXPECT_FALSE(then.error);
}

}  // namespace
}  // namespace strobe
