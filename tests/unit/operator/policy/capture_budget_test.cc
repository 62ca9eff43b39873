#include "operator/policy/capture_budget.h"

#include <gmock/gmock.h>

#include <deque>
#include <random>

namespace strobe::policy {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

const WallTime kBudgetNow{std::chrono::seconds(1'800'000'000)};

// Runs of one job, the newest first.
class SpentRuns {
 public:
  void Add(WallTime created, Nanos recorded = 2s, std::uint64_t bytes = 0) {
    kube::CreatedRun run{.name = "r", .state = kube::RunState::kSucceeded, .created = created};
    run.recorded = recorded;
    run.bytes = bytes;
    runs_.push_front(run);
  }
  std::optional<UsedUp> Why(const CaptureBudget& budget, WallTime now, Nanos duration = 2s) const {
    std::vector<const kube::CreatedRun*> runs;
    for (const kube::CreatedRun& run : runs_) runs.push_back(&run);
    return WhyUsedUp(budget, runs, duration, now);
  }
  // Looks at each minute.
  std::optional<WallTime> FirstFree(const CaptureBudget& budget, WallTime now) const {
    for (const WallTime end = now + 25h; now < end; now += 1min)
      if (!Why(budget, now)) return now;
    return std::nullopt;
  }

 private:
  std::deque<kube::CreatedRun> runs_;
};

TEST(CaptureBudget, EachLimitIsNamedWithWhatWasUsed) {
  SpentRuns runs;
  EXPECT_FALSE(runs.Why({.cool_down = 10min, .captures_per_day = 1}, kBudgetNow));
  runs.Add(kBudgetNow - 2h, 3s, 700);
  runs.Add(kBudgetNow - 1h, 3s, 700);
  EXPECT_FALSE(runs.Why({}, kBudgetNow));
  const auto reason = [&](const CaptureBudget& budget) {
    const std::optional<UsedUp> why = runs.Why(budget, kBudgetNow);
    return why ? why->refusal.reason : "";
  };
  EXPECT_EQ(reason({.cool_down = 1h + 1s}), kCoolDown);
  EXPECT_EQ(reason({.cool_down = 1h}), "");
  EXPECT_EQ(reason({.captures_per_day = 2}), kCapturesPerDay);
  EXPECT_EQ(reason({.captures_per_day = 3}), "");
  EXPECT_EQ(reason({.bytes_per_day = 1400}), kBytesPerDay);
  EXPECT_EQ(reason({.bytes_per_day = 1401}), "");
  EXPECT_EQ(reason({.duty_cycle = 7.9 / 86'400}), kDutyCycle);
  EXPECT_EQ(reason({.duty_cycle = 8.1 / 86'400}), "");
  const std::string message = runs.Why({.duty_cycle = 0.00005}, kBudgetNow)->refusal.message;
  EXPECT_THAT(message, HasSubstr("6s were recorded in the last 24 hours"));
  EXPECT_THAT(message, HasSubstr("exceed dutyCycle, 0.005%; available again at "));
}

TEST(CaptureBudget, ACaptureThatNeverFitsIsSaidSo) {
  SpentRuns runs;
  const std::optional<UsedUp> why = runs.Why({.duty_cycle = 0.00001}, kBudgetNow, 10s);
  ASSERT_TRUE(why);
  EXPECT_FALSE(why->until);
  EXPECT_THAT(why->refusal.message, HasSubstr("a single capture exceeds it"));
}

// The time that is told is the first minute at which the same question is answered by yes.
TEST(CaptureBudget, TheTimeThatIsToldIsWhenItIsFreeAgain) {
  std::mt19937 random(22);
  const auto up_to = [&](unsigned most) { return static_cast<int>(random() % most); };
  int refused = 0;
  for (int round = 0; round < 60; ++round) {
    SpentRuns runs;
    WallTime created = kBudgetNow - 30h;
    for (int i = 0; i < 12; ++i) {
      created += 1min * up_to(3 * 60);
      if (created > kBudgetNow) break;
      runs.Add(created, 1s * (1 + up_to(9)), static_cast<std::uint64_t>(up_to(1000)));
    }
    CaptureBudget budget;
    switch (round % 4) {
      case 0:
        budget.cool_down = 1min * (1 + up_to(4 * 60));
        break;
      case 1:
        budget.captures_per_day = 1 + up_to(8);
        break;
      case 2:
        budget.duty_cycle = (3 + up_to(30)) / 86'400.0;
        break;
      default:
        budget.bytes_per_day = 1 + static_cast<std::uint64_t>(up_to(4000));
    }
    const std::optional<UsedUp> why = runs.Why(budget, kBudgetNow);
    if (!why) continue;
    ++refused;
    EXPECT_EQ(why->until, runs.FirstFree(budget, kBudgetNow)) << why->refusal.message;
  }
  EXPECT_GT(refused, 15);
}

}  // namespace
}  // namespace strobe::policy
