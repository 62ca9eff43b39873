#include "sidecar/capture/stand_still.h"

#include <gmock/gmock.h>

#include <limits>
#include <vector>

namespace strobe::session {
namespace {

using namespace std::chrono_literals;
using testing::IsEmpty;
using testing::SizeIs;

const WallTime kStandStillNow = FromUnixNanos(1'800'000'000'000'000'000);

v1::StepPace PaceOf(const char* process, const char* loop, Nanos began_ago, Nanos period) {
  v1::StepPace pace;
  pace.set_process(process);
  pace.set_loop(loop);
  pace.set_number(40);
  pace.set_began_ns(ToUnixNanos(kStandStillNow - began_ago));
  pace.set_period_ns(period.count());
  return pace;
}

TEST(StandStill, TakesThreeSecondsAtLeast) {
  const auto looked = [](Nanos ago) {
    return FindStandStills(std::vector{PaceOf("a 1", "train", ago, 100ms)}, kStandStillNow);
  };
  EXPECT_THAT(looked(2900ms), IsEmpty()) << "ten steps are one second";
  ASSERT_THAT(looked(3100ms), SizeIs(1));
  EXPECT_EQ(looked(3100ms)[0].since, kStandStillNow - 3100ms);
  EXPECT_EQ(looked(3100ms)[0].usual_step_ns, Nanos{100ms}.count());
}

TEST(StandStill, TakesTenUsualSteps) {
  const auto looked = [](Nanos ago) {
    return FindStandStills(std::vector{PaceOf("a 1", "train", ago, 2s)}, kStandStillNow);
  };
  EXPECT_THAT(looked(19s), IsEmpty());
  EXPECT_THAT(looked(21s), SizeIs(1));
}

TEST(StandStill, FollowsItsLimits) {
  const std::vector<v1::StepPace> told{PaceOf("a 1", "train", 30s, 2s)};
  EXPECT_THAT(FindStandStills(told, kStandStillNow, {.at_least = 60s, .usual_steps = 1}),
              IsEmpty());
  EXPECT_THAT(FindStandStills(told, kStandStillNow, {.at_least = 1s, .usual_steps = 20}),
              IsEmpty());
  EXPECT_THAT(FindStandStills(told, kStandStillNow, {.at_least = 1s, .usual_steps = 14}),
              SizeIs(1));
}

TEST(StandStill, IsUnknownBeforeTwoStepsBegan) {
  EXPECT_THAT(FindStandStills(std::vector{PaceOf("a 1", "train", 600s, 0s)}, kStandStillNow),
              IsEmpty());
}

TEST(StandStill, IsOfAProcessAndNotOfALoopThatRests) {
  const std::vector<v1::StepPace> told{PaceOf("a 1", "train", 60s, 100ms),
                                       PaceOf("a 1", "evaluate", 1s, 100ms),
                                       PaceOf("b 2", "train", 60s, 100ms)};
  const std::vector<StandStill> found = FindStandStills(told, kStandStillNow);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].process, "b 2");
}

TEST(StandStill, CountsTheEndOfAStepToo) {
  v1::StepPace pace = PaceOf("a 1", "train", 10s, 100ms);
  pace.set_ended_ns(ToUnixNanos(kStandStillNow - 1s));
  EXPECT_THAT(FindStandStills(std::vector{pace}, kStandStillNow), IsEmpty());
}

TEST(StandStill, DescribesTheLongest) {
  const std::vector<v1::StepPace> told{PaceOf("a 1", "train", 10s, 100ms),
                                       PaceOf("b 2", "train", 70s, 200ms)};
  const v1::Stall stall = StallOf(told, kStandStillNow);
  EXPECT_TRUE(stall.stalled());
  EXPECT_EQ(stall.since_ns(), ToUnixNanos(kStandStillNow - 70s));
  EXPECT_EQ(stall.usual_step_ns(), Nanos{200ms}.count());
  EXPECT_FALSE(StallOf({}, kStandStillNow).stalled());
}

// Programs may tell anything.
TEST(StandStill, BearsNumbersOfAHostileProgram) {
  v1::StepPace pace = PaceOf("a 1", "train", 10s, 100ms);
  pace.set_period_ns(std::numeric_limits<std::int64_t>::max());
  EXPECT_THAT(FindStandStills(std::vector{pace}, kStandStillNow), IsEmpty());
  pace.set_began_ns(std::numeric_limits<std::int64_t>::min());
  pace.set_period_ns(1);
  EXPECT_THAT(FindStandStills(std::vector{pace}, kStandStillNow), SizeIs(1));
}

}  // namespace
}  // namespace strobe::session
