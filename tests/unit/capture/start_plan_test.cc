#include "capture/start_plan.h"

#include <gmock/gmock.h>

namespace strobe::capture {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr WallTime kPlanNow{1000s};

std::vector<ClockReading> Two(Nanos error) {
  return {{"w0", 0ms, error, 2ms, 0ms, 0ms}, {"w1", 40ms, error, 5ms, 0ms, 0ms}};
}

TEST(PlanStart, LeavesTimeToArmAndToStartTheSource) {
  const auto plan = PlanStart({}, kPlanNow, Two(1ms));
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->instant, kPlanNow + kMinGuard + 300ms + 50ms);
  EXPECT_EQ(plan->skew_bound, 2ms);
}

// Regression: a worker with a busy machine had 50 ms to answer its plan, and was Unreachable.
TEST(PlanStart, ASourceThatStartsQuicklyLeavesNoLessTimeToArm) {
  std::vector<ClockReading> workers = Two(1ms);
  for (ClockReading& worker : workers) worker.lead = 20ms;
  const auto plan = PlanStart({}, kPlanNow, workers);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->instant - plan->guard, kPlanNow + CallOffLead(workers) + 150ms);
}

TEST(PlanStart, CallingOffReachesTheFarthestWorker) {
  EXPECT_EQ(CallOffLead(Two(1ms)), 150ms + 2ms);
  std::vector<ClockReading> workers = Two(1ms);
  workers[0].error.reset();
  workers[1].error = 40ms;
  EXPECT_EQ(CallOffLead(workers), 150ms + 80ms);
}

TEST(PlanStart, HonoursALongerDelayAndRaisesAShorterOne) {
  Spec spec;
  spec.delay = 10s;
  EXPECT_EQ(PlanStart(spec, kPlanNow, Two(1ms))->instant, kPlanNow + 10s);
  spec.delay = 1ms;
  EXPECT_GT(PlanStart(spec, kPlanNow, Two(1ms))->instant, kPlanNow + 300ms);
}

TEST(PlanStart, StartsAtThePointInTimeThatWasAskedFor) {
  Spec spec;
  spec.at = kPlanNow + 1min;
  EXPECT_EQ(PlanStart(spec, kPlanNow, Two(1ms))->instant, kPlanNow + 1min);
}

TEST(PlanStart, NamesTheWorkerWhoseClockIsTooUncertain) {
  Spec spec;
  spec.max_skew = 1ms;
  EXPECT_THAT(std::string(PlanStart(spec, kPlanNow, Two(9ms)).status().message()), HasSubstr("w0"));
}

TEST(PlanStart, CannotPromiseASkewWithAClockThatWasNeverMeasured) {
  Spec spec;
  std::vector<ClockReading> workers = Two(1us);
  workers[1].error.reset();
  EXPECT_TRUE(PlanStart(spec, kPlanNow, workers).ok());
  spec.max_skew = 1s;
  EXPECT_THAT(std::string(PlanStart(spec, kPlanNow, workers).status().message()), HasSubstr("w1"));
}

TEST(PlanStart, TheGuardFollowsTheWorstLatenessUpToABound) {
  std::vector<ClockReading> workers = Two(1ms);
  workers[1].wake_lateness = 4ms;
  EXPECT_EQ(PlanStart({}, kPlanNow, workers)->guard, 16ms);
  workers[0].capture_lateness = 20ms;
  EXPECT_EQ(PlanStart({}, kPlanNow, workers)->guard, 40ms);
  workers[0].capture_lateness = 2s;
  EXPECT_EQ(PlanStart({}, kPlanNow, workers)->guard, kMaxDefaultGuard);
  Spec spec;
  spec.guard = 0ms;
  EXPECT_EQ(PlanStart(spec, kPlanNow, workers)->guard, 0ms);
}

TEST(PlanStart, RefusesAJobWithoutWorkers) { EXPECT_FALSE(PlanStart({}, kPlanNow, {}).ok()); }

TEST(PlanStart, LargeJobsGetTimeForTheFanOut) {
  const std::vector<ClockReading> many(2000, {"w", 0ms, 1us, 1ms, 0ms, 0ms});
  EXPECT_GE(PlanStart({}, kPlanNow, many)->instant, kPlanNow + 1s);
}

}  // namespace
}  // namespace strobe::capture
