#include "collector/trace/report/series_change.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/fakes/dice.h"

namespace strobe::report {
namespace {

constexpr ChangeTest kOnePercent{.margin = 1, .too_wide = 0.25, .false_alarm = 0.005};

std::vector<double> Resembling(Dice& dice, std::size_t n, double mean, double resemblance) {
  std::vector<double> values;
  double noise = dice.Normal();
  for (std::size_t i = 0; i < n; ++i) {
    noise = resemblance * noise + std::sqrt(1 - resemblance * resemblance) * dice.Normal();
    values.push_back(mean + noise);
  }
  return values;
}

TEST(TypicalOf, IsNotMovedByALongStep) {
  const Typical plain = TypicalOf(std::vector<double>{9, 10, 11, 9, 10, 11, 9, 10, 11, 10});
  const Typical with_long = TypicalOf(std::vector<double>{9, 10, 11, 9, 10, 500, 9, 10, 11, 10});
  EXPECT_NEAR(plain.mean, 10, 0.01);
  EXPECT_NEAR(with_long.mean, 10, 0.2);
  EXPECT_LT(with_long.error, 1);
}

TEST(TypicalOf, NeighboursThatAreAlikeTellLess) {
  const Typical mixed = TypicalOf(std::vector<double>{9, 11, 9, 11, 9, 11, 9, 11, 9, 11, 9, 11});
  const Typical alike = TypicalOf(std::vector<double>{9, 9, 9, 9, 9, 9, 11, 11, 11, 11, 11, 11});
  EXPECT_NEAR(mixed.mean, alike.mean, 1e-9);
  EXPECT_GT(alike.error, 2 * mixed.error);
}

TEST(TypicalOf, OneValueTellsNothingOfItsError) {
  EXPECT_EQ(TypicalOf(std::vector<double>{5}).degrees, 0);
  EXPECT_EQ(TypicalOf(std::vector<double>{}).n, 0u);
}

TEST(CompareSeries, TellsADifferenceBeyondTheMargin) {
  const std::vector<double> before(10, 100), longer(10, 102), close(10, 100.9);
  EXPECT_EQ(CompareSeries(before, longer, kOnePercent).verdict, ChangeVerdict::kLonger);
  EXPECT_EQ(CompareSeries(longer, before, kOnePercent).verdict, ChangeVerdict::kShorter);
  const Change same = CompareSeries(before, close, kOnePercent);
  EXPECT_EQ(same.verdict, ChangeVerdict::kNoChange);
  EXPECT_NEAR(same.smallest, 1, 1e-9);
}

TEST(CompareSeries, FewStepsDecideNothing) {
  const std::vector<double> few(kMinComparedSteps - 1, 100), many(50, 200);
  const Change change = CompareSeries(few, many, kOnePercent);
  EXPECT_EQ(change.verdict, ChangeVerdict::kNotDecidable);
  EXPECT_EQ(change.before_n, kMinComparedSteps - 1);
  EXPECT_EQ(change.smallest, 0);
  EXPECT_DOUBLE_EQ(change.difference(), 100) << "it is shown all the same";
  EXPECT_EQ(CompareSeries({}, many, kOnePercent).verdict, ChangeVerdict::kNotDecidable);
}

TEST(CompareSeries, StepsThatVaryWildlyDecideNothing) {
  const std::vector<double> wild = {10, 200, 15, 180, 20, 190, 12, 210};
  EXPECT_EQ(CompareSeries(wild, wild, kOnePercent).verdict, ChangeVerdict::kNotDecidable);
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(CompareSeries(std::vector<double>(8, inf), wild, kOnePercent).verdict,
            ChangeVerdict::kNotDecidable);
}

// Without a margin, and with noise that a simple test would take for a change. A t test that takes
// steps for independent claims a change in 15 % of these pairs at a level of 0.5 %.
TEST(CompareSeries, ResemblingStepsAreSeldomAChange) {
  const ChangeTest strict{.margin = 0, .too_wide = 1e9, .false_alarm = 0.005};
  for (const auto& [resemblance, most] :
       {std::pair(0.0, 10), std::pair(0.3, 20), std::pair(0.6, 40)}) {
    for (const std::size_t n : {6u, 12u, 20u, 60u}) {
      Dice dice(n * 31 + 7);
      int claims = 0;
      for (int i = 0; i < 1000; ++i)
        claims += CompareSeries(Resembling(dice, n, 100, resemblance),
                                Resembling(dice, n, 100, resemblance), strict)
                      .verdict != ChangeVerdict::kNoChange;
      EXPECT_LE(claims, most) << n << " steps that resemble each other by " << resemblance;
    }
  }
}

}  // namespace
}  // namespace strobe::report
