#include "collector/trace/report/robust.h"

#include <gtest/gtest.h>

namespace strobe::report {
namespace {

TEST(Robust, MiddleValuesIgnoreWildOnes) {
  std::vector<double> odd = {9, 1, 5}, even = {1, 2, 1000, 3}, none;
  EXPECT_EQ(Median(odd), 5);
  EXPECT_EQ(Median(even), 2.5);
  EXPECT_EQ(Median(none), 0);
  EXPECT_DOUBLE_EQ(RobustDeviation({1, 2, 3, 4, 1000}, 3), 1.4826);
  // The smallest and the largest of five are cut off. The winsorized values 2, 2, 3, 4, 4 have a
  // sum of squares of 4, and sqrt(4 / (3 * 2)) is the error.
  const TrimmedMean mean = TrimmedMeanOf({1000, 3, 2, 4, 1});
  EXPECT_DOUBLE_EQ(mean.mean, 3);
  EXPECT_NEAR(mean.error, 0.8165, 1e-4);
  EXPECT_EQ(mean.kept, 3u);
  EXPECT_EQ(TrimmedMeanOf({7}).error, 0);
}

// The values are from tables of the distributions.
TEST(Robust, ProbabilitiesAreThoseOfTheTables) {
  EXPECT_NEAR(StudentTail(12.706, 1), 0.025, 1e-5);
  EXPECT_NEAR(StudentTail(2.228, 10), 0.025, 1e-5);
  EXPECT_NEAR(StudentTail(-2.228, 10), 0.975, 1e-5);
  EXPECT_NEAR(StudentTail(4.587, 10), 0.0005, 1e-6);
  EXPECT_NEAR(StudentQuantile(0.025, 10), 2.228, 1e-3);
  EXPECT_NEAR(BinomialTail(3, 10, 0.5), 0.9453125, 1e-9);
  EXPECT_NEAR(BinomialTail(10, 10, 0.5), 1.0 / 1024, 1e-12);
  EXPECT_EQ(BinomialTail(0, 10, 0.1), 1);
  EXPECT_EQ(BinomialTail(11, 10, 0.1), 0);
  const Spread spread = SpreadOf(std::vector<double>{1, 2, 3});
  EXPECT_DOUBLE_EQ(spread.mean, 2);
  EXPECT_NEAR(spread.half_width, 4.303 / 1.7320508, 1e-3) << "t(0.025, 2) / sqrt(3)";
}

}  // namespace
}  // namespace strobe::report
