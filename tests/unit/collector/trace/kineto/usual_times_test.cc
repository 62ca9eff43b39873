#include "collector/trace/kineto/usual_times.h"

#include <gtest/gtest.h>

#include <vector>

namespace strobe::kineto {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000'000, kDay = 86'400 * kSecond;

UsualTimes With(const std::vector<std::int64_t>& times, int zeros, std::int64_t zero = 0) {
  UsualTimes all;
  for (int i = 0; i < zeros; ++i) all.Add(zero, true);
  for (const std::int64_t time : times) all.Add(time, false);
  return all;
}

// Steps of ten milliseconds from `begin` on.
std::vector<std::int64_t> Steps(std::int64_t begin, int steps) {
  std::vector<std::int64_t> times;
  for (int i = 0; i < steps; ++i) times.push_back(begin + i * kSecond / 100);
  return times;
}

TEST(UsualTimes, ALostTimeIsLeftOutAtAnyDistance) {
  for (const std::int64_t away : {100 * kSecond, 5'000 * kSecond, kDay, 13 * kDay, 50 * kDay}) {
    for (const int zeros : {1, 30, 500}) {
      const UsualTimes::Usual usual = With(Steps(0, 40), zeros, -away).Find(false);
      EXPECT_EQ(usual.left_out, static_cast<std::uint64_t>(zeros)) << away;
      EXPECT_EQ(usual.first_ps, 0);
      EXPECT_EQ(usual.last_ps, 39 * kSecond / 100);
    }
  }
}

TEST(UsualTimes, ATimeOfZeroIsKeptWhereItIsMeant) {
  EXPECT_EQ(With(Steps(10, 40), 3).Find(false).left_out, 0u);
  EXPECT_EQ(With({}, 3).Find(false).left_out, 0u);
  // Somebody waited before the program ran.
  std::vector<std::int64_t> minute = Steps(70 * kSecond, 6000);
  EXPECT_EQ(With(minute, 1).Find(false).left_out, 0u);
  EXPECT_EQ(With(minute, 1).Find(true).left_out, 1u) << "Kineto's times never begin at 0";
  EXPECT_EQ(With({-5, 5}, 1).Find(true).left_out, 0u) << "between others";
}

TEST(UsualTimes, AFewTimesFarAwayAreLeftOut) {
  for (const std::int64_t away : {2 * kDay, -2 * kDay, 40 * kDay}) {
    std::vector<std::int64_t> times = Steps(0, 80);
    times.push_back(away);
    const UsualTimes::Usual usual = With(times, 0).Find(false);
    EXPECT_EQ(usual.left_out, 1u) << away;
    EXPECT_EQ(usual.count, 80u);
    EXPECT_LT(usual.latest_end_ps, 2 * kDay);
  }
}

// Ranks whose clocks count from their machines' boots, and jobs of several days.
TEST(UsualTimes, MuchThatIsFarAwayIsKept) {
  std::vector<std::int64_t> times = Steps(0, 80);
  for (const std::int64_t time : Steps(30 * kDay, 40)) times.push_back(time);
  EXPECT_EQ(With(times, 0).Find(false).left_out, 0u);
  std::vector<std::int64_t> days;
  for (int i = 0; i < 100; ++i) days.push_back(i * kDay / 50);
  days.push_back(6 * kDay);
  EXPECT_EQ(With(days, 0).Find(false).left_out, 0u);
}

TEST(UsualTimes, OneLongEventIsNoMistake) {
  EXPECT_GT(With({0}, 0).Find(false).latest_end_ps, 50 * kDay);
}

}  // namespace
}  // namespace strobe::kineto
