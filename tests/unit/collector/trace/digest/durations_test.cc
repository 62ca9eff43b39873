#include "collector/trace/digest/durations.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace strobe::digest {
namespace {

TEST(Durations, QuantilesAreWithinTwoPercentOfThoseOfTheSortedValues) {
  Durations durations;
  std::mt19937_64 random(3);
  std::lognormal_distribution<double> lengths(15, 2);
  std::vector<std::vector<std::int64_t>> all(50);
  for (int i = 0; i < 50'000; ++i) {
    const auto op = static_cast<std::uint32_t>(random() % all.size());
    const auto length = static_cast<std::int64_t>(lengths(random));
    durations.Add(op, length);
    all[op].push_back(length);
  }
  const std::vector<Durations::Quantiles> quantiles = durations.Compute(all.size());
  for (std::size_t op = 0; op < all.size(); ++op) {
    std::sort(all[op].begin(), all[op].end());
    const auto at = [&](double share) {
      const double rank = std::ceil(share * static_cast<double>(all[op].size()));
      return static_cast<double>(all[op][static_cast<std::size_t>(rank) - 1]);
    };
    EXPECT_NEAR(static_cast<double>(quantiles[op].p50), at(0.5), 0.02 * at(0.5));
    EXPECT_NEAR(static_cast<double>(quantiles[op].p99), at(0.99), 0.02 * at(0.99));
  }
}

TEST(Durations, TellsNothingOfAnOperationOfWhichDurationsWereLeftOut) {
  constexpr std::uint32_t kBuckets = 1024, kOps = Durations::kMaxPairs / kBuckets;
  Durations durations;
  for (std::uint32_t op = 0; op < kOps; ++op) {
    for (std::uint32_t bucket = 0; bucket < kBuckets; ++bucket)
      durations.Add(op, Durations::MiddleOf(bucket));
  }
  durations.Add(0, Durations::MiddleOf(3));  // Is counted already.
  durations.Add(1, Durations::MiddleOf(kBuckets));
  durations.Add(kOps, 5);
  const std::vector<Durations::Quantiles> quantiles = durations.Compute(kOps + 1);
  EXPECT_EQ(quantiles[2].p50, Durations::MiddleOf(kBuckets / 2 - 1));
  EXPECT_GT(quantiles[0].p99, 0);
  EXPECT_EQ(quantiles[1].p99, 0);
  EXPECT_EQ(quantiles[kOps].p99, 0);
}

TEST(Durations, EveryDurationHasABucketNearIt) {
  for (std::int64_t value = 1; value > 0 && value < std::numeric_limits<std::int64_t>::max() / 3;
       value = value * 3 / 2 + 1) {
    const auto middle = static_cast<double>(Durations::MiddleOf(Durations::BucketOf(value)));
    EXPECT_NEAR(middle, static_cast<double>(value), 0.02 * static_cast<double>(value));
  }
  EXPECT_EQ(Durations::MiddleOf(Durations::BucketOf(0)), 0);
  EXPECT_GT(Durations::MiddleOf(Durations::BucketOf(std::numeric_limits<std::int64_t>::max())), 0);
}

}  // namespace
}  // namespace strobe::digest
