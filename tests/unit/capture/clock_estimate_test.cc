#include "capture/clock_estimate.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace strobe::capture {
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
  SCOPED_TRACE("all that the offset may have changed by until the second measurement");
  ExpectNear(then, 5020us, 84us);
}

// Regression: 2 s without a second measurement were stated as 0.2 ms. chrony slews a clock by up to
// 83,333 ppm.
TEST(OffsetAt, WithoutASecondMeasurementAClockMayHaveBeenSlewed) {
  for (const std::optional<ClockOffset>& after :
       {std::optional<ClockOffset>(), std::optional(ClockOffset{kMeasuredAgain, 9ms, std::nullopt}),
        std::optional(ClockOffset{kMeasured, 9ms, 1us})}) {
    const ClockOffset then = OffsetAt(kBegun, {kMeasured, 5ms, 60us}, after);
    EXPECT_EQ(then.offset, 5ms);
    EXPECT_GE(*then.error, Nanos(2s) * 83'333 / 1'000'000);
    EXPECT_EQ(then.error, 200'060us);
  }
}

// Whenever a slew between the measurements began, and however fast it was.
TEST(OffsetAt, ASlewBetweenTheMeasurementsIsWithinTheError) {
  for (const double rate : {50e-6, 500e-6, 83'333e-6, -83'333e-6}) {
    for (Nanos begin{0}; begin < 10s; begin += 250ms) {
      for (Nanos length = 100ms; begin + length <= 10s; length += 700ms) {
        const auto at = [&](WallTime when) {
          const Nanos slewed = std::clamp(Nanos(when - kMeasured) - begin, Nanos{0}, length);
          return Nanos{static_cast<std::int64_t>(static_cast<double>(slewed.count()) * rate)};
        };
        const ClockOffset after{kMeasuredAgain, at(kMeasuredAgain), 40us};
        for (WallTime when = kMeasured; when <= kMeasuredAgain; when += 500ms) {
          const ClockOffset then = OffsetAt(when, {kMeasured, 0us, 40us}, after);
          ASSERT_LE(std::chrono::abs(then.offset - at(when)), *then.error)
              << rate << " from " << begin.count() << " for " << length.count();
          ASSERT_LE(*then.error, std::chrono::abs(after.offset) + 80us);
        }
      }
    }
  }
}

TEST(OffsetAt, AMeasurementThatTellsLittleHardlyMovesTheOffset) {
  ExpectNear(OffsetAt(kBegun, {kMeasured, 5ms, 60us}, ClockOffset{kMeasuredAgain, 90ms, 300ms}),
             5ms, 200'060us);
  const ClockOffset then =
      OffsetAt(kBegun, {kMeasured, 5ms, 40ms}, ClockOffset{kMeasuredAgain, 30ms, 200us});
  EXPECT_NEAR(static_cast<double>(then.offset.count()), 30e6 - 13e3, 1e3);
}

TEST(OffsetAt, BothMeasurementsMustBeTrue) {
  // Crystals leave up to 3.2 ms by the first one, and at least 2.8 ms by the second one.
  const ClockOffset then =
      OffsetAt(kBegun, {kMeasured, 0ms, 3ms}, ClockOffset{kMeasuredAgain, 6600us, 3ms});
  EXPECT_GE(then.offset, 2800us);
  EXPECT_LE(then.offset, 3200us);
  EXPECT_LE(then.offset - *then.error, -3000us) << "but a slew may have begun later";
}

TEST(OffsetAt, AClockThatWasPulledLiesBetween) {
  const ClockOffset then =
      OffsetAt(kBegun, {kMeasured, 5ms, 60us}, ClockOffset{kMeasuredAgain, 50ms, 60us});
  ExpectNear(then, 14ms + 96500ns, 35963us);
}

TEST(OffsetAt, TimesOutsideHaveTheNearestOffset) {
  const ClockOffset before{kMeasured, 5ms, 6us}, after{kMeasuredAgain, 6ms, 4us};
  EXPECT_LE(std::chrono::abs(OffsetAt(kMeasured - 1h, before, after).offset - 5ms), 1us);
  EXPECT_LE(std::chrono::abs(OffsetAt(kMeasuredAgain + 1h, before, after).offset - 6ms), 1us);
  EXPECT_GE(OffsetAt(kMeasuredAgain + 1h, before, after).error, 360s) << "an hour's slew";
}

TEST(OffsetAt, AClockThatWasNotMeasuredStaysUnknown) {
  const ClockOffset then =
      OffsetAt(kBegun, {kMeasured, 0ms, std::nullopt}, ClockOffset{kMeasuredAgain, 6ms, 40us});
  EXPECT_EQ(then.offset, 0ms);
  EXPECT_FALSE(then.error);
}

}  // namespace
}  // namespace strobe::capture
