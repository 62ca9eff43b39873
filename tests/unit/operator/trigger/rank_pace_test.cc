#include "operator/trigger/rank_pace.h"

#include <gmock/gmock.h>

#include <limits>
#include <random>

namespace strobe::trigger {
namespace {

using namespace std::chrono_literals;

constexpr SlowSteps kAsked{50, 30};

class RankPaceTest : public testing::Test {
 protected:
  // Every rank tells its steps; `slow` of the eight takes `step`. The ranks with a sign.
  std::vector<int> Round(int slow, Nanos step, std::uint32_t steps = 10, int ranks = 8) {
    now_ += 10s;
    std::vector<int> found;
    for (int rank = 0; rank < ranks; ++rank) {
      const Nanos noise{std::uniform_int_distribution<int>(-3'000'000, 3'000'000)(random_)};
      const ReportedStepTime told{"train", "python 7", (rank == slow ? step : 100ms) + noise,
                                  steps};
      if (pace_.Take("t\nJob/llm", std::to_string(rank), told, kAsked, now_)) found.push_back(rank);
    }
    return found;
  }

  RankPace pace_;
  MonoTime now_{1h};
  std::mt19937_64 random_{5};
};

TEST_F(RankPaceTest, OneSlowRankIsASignOnceUntilItIsAsTheOthers) {
  using testing::ElementsAre;
  using testing::IsEmpty;
  for (int i = 0; i < 50; ++i) EXPECT_THAT(Round(-1, {}), IsEmpty());
  EXPECT_THAT(Round(3, 200ms), IsEmpty()) << "only ten steps";
  EXPECT_THAT(Round(3, 200ms), IsEmpty());
  EXPECT_THAT(Round(3, 200ms), ElementsAre(3));
  for (int i = 0; i < 50; ++i) EXPECT_THAT(Round(3, 200ms), IsEmpty());
  EXPECT_THAT(Round(-1, {}), IsEmpty());
  EXPECT_THAT(Round(3, 200ms, 40), ElementsAre(3));
  for (int i = 0; i < 50; ++i) EXPECT_THAT(Round(3, 140ms), IsEmpty()) << "less than 50% more";
}

TEST_F(RankPaceTest, WhatIsToldIsTheTimesAndTheBegin) {
  Round(-1, {});
  now_ += 10s;
  std::optional<ReportedSign> sign =
      pace_.Take("t\nJob/llm", "3", {"train", "python 7", 300ms, 33}, kAsked, now_);
  ASSERT_TRUE(sign);
  EXPECT_EQ(sign->step, 300ms);
  EXPECT_NEAR(static_cast<double>(sign->usual_step.count()), 100e6, 3e6);
  EXPECT_EQ(sign->began_ago, 33 * 300ms);
}

TEST_F(RankPaceTest, FewOrSilentOthersSayNothing) {
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(Round(0, 900ms, 10, 3).empty()) << "two others";
  EXPECT_TRUE(Round(0, 900ms, 30, 4).empty()) << "the fourth tells after it";
  EXPECT_FALSE(Round(0, 900ms, 30, 4).empty());
  now_ += 1min;
  EXPECT_FALSE(pace_.Take("t\nJob/llm", "0", {"train", "python 7", 900ms, 99}, kAsked, now_))
      << "the others have told nothing lately";
  EXPECT_FALSE(pace_.Take("t\nJob/bert", "0", {"train", "p", 900ms, 99}, kAsked, now_));
  EXPECT_FALSE(pace_.Take("t\nJob/llm", "0", {"eval", "python 7", 900ms, 99}, kAsked, now_));
}

TEST_F(RankPaceTest, RanksThatDifferByNatureAreNoSign) {
  // Half of the ranks take twice as long: nobody is unusual.
  for (int i = 0; i < 20; ++i) {
    now_ += 10s;
    for (int rank = 0; rank < 8; ++rank) {
      const ReportedStepTime told{"train", "p", rank % 2 == 0 ? Nanos(100ms) : Nanos(200ms), 10};
      EXPECT_FALSE(pace_.Take("t\nJob/llm", std::to_string(rank), told, kAsked, now_));
    }
  }
}

TEST_F(RankPaceTest, MemoryIsBoundedAndOldWorkersAreForgotten) {
  for (int worker = 0; worker < 30'000; ++worker) {
    pace_.Take(std::to_string(worker % 7), std::to_string(worker),
               {"train", "p", Nanos::max(), std::numeric_limits<std::uint32_t>::max()}, kAsked,
               now_);
    if (worker == 100) now_ += 1ms;
  }
  EXPECT_EQ(pace_.size(), 20'000u);
  EXPECT_EQ(pace_.dropped(), 10'000u);
  now_ += 5min;
  pace_.Take("g", "w", {"train", "p", 1s, 1}, kAsked, now_);
  EXPECT_EQ(pace_.size(), 1u);
}

}  // namespace
}  // namespace strobe::trigger
