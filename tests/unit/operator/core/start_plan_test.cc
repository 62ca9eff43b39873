#include "operator/core/start_plan.h"

#include <gmock/gmock.h>

namespace strobe {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr WallTime kNow{1000s};

std::vector<ClockReading> Two(Nanos error) {
  return {{"w0", 0ms, error, 2ms, 0ms, 0ms}, {"w1", 40ms, error, 5ms, 0ms, 0ms}};
}

TEST(PlanStart, LeavesTimeToArmAndToStartTheSource) {
  const auto plan = PlanStart({}, kNow, Two(1ms));
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->instant, kNow + kMinGuard + 300ms + 50ms);
  EXPECT_EQ(plan->skew_bound, 2ms);
}

TEST(PlanStart, HonoursALongerDelayAndRaisesAShorterOne) {
  CaptureSpec spec;
  spec.delay = 10s;
  EXPECT_EQ(PlanStart(spec, kNow, Two(1ms))->instant, kNow + 10s);
  spec.delay = 1ms;
  EXPECT_GT(PlanStart(spec, kNow, Two(1ms))->instant, kNow + 300ms);
}

TEST(PlanStart, StartsAtThePointInTimeThatWasAskedFor) {
  CaptureSpec spec;
  spec.at = kNow + 1min;
  EXPECT_EQ(PlanStart(spec, kNow, Two(1ms))->instant, kNow + 1min);
}

TEST(PlanStart, NamesTheWorkerWhoseClockIsTooUncertain) {
  CaptureSpec spec;
  spec.max_skew = 1ms;
  EXPECT_THAT(std::string(PlanStart(spec, kNow, Two(9ms)).status().message()), HasSubstr("w0"));
}

TEST(PlanStart, CannotPromiseASkewWithAClockThatWasNeverMeasured) {
  CaptureSpec spec;
  std::vector<ClockReading> workers = Two(1us);
  workers[1].error.reset();
  EXPECT_TRUE(PlanStart(spec, kNow, workers).ok());
  spec.max_skew = 1s;
  EXPECT_THAT(std::string(PlanStart(spec, kNow, workers).status().message()), HasSubstr("w1"));
}

TEST(PlanStart, TheGuardFollowsTheWorstLatenessUpToABound) {
  std::vector<ClockReading> workers = Two(1ms);
  workers[1].wake_lateness = 4ms;
  EXPECT_EQ(PlanStart({}, kNow, workers)->guard, 16ms);
  workers[0].capture_lateness = 20ms;
  EXPECT_EQ(PlanStart({}, kNow, workers)->guard, 40ms);
  workers[0].capture_lateness = 2s;
  EXPECT_EQ(PlanStart({}, kNow, workers)->guard, kMaxDefaultGuard);
  CaptureSpec spec;
  spec.guard = 0ms;
  EXPECT_EQ(PlanStart(spec, kNow, workers)->guard, 0ms);
}

TEST(PlanStart, RefusesAJobWithoutWorkers) { EXPECT_FALSE(PlanStart({}, kNow, {}).ok()); }

TEST(PlanStart, LargeJobsGetTimeForTheFanOut) {
  const std::vector<ClockReading> many(2000, {"w", 0ms, 1us, 1ms, 0ms, 0ms});
  EXPECT_GE(PlanStart({}, kNow, many)->instant, kNow + 1s);
}

}  // namespace
}  // namespace strobe
