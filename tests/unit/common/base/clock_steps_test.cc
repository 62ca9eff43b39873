#include "common/base/clock_steps.h"

#include <gtest/gtest.h>

#include "tests/fakes/simulated_time.h"

namespace strobe {
namespace {

using namespace std::chrono_literals;

TEST(ClockSteps, TellsByHowMuchTheWallClockWasSet) {
  SimulatedTime time;
  const ClockSteps steps(time);
  time.Advance(1h);
  EXPECT_EQ(steps.Since(), 0ns) << "time that passes is no step";
  time.StepWall(3s);
  time.Advance(1h);
  EXPECT_EQ(steps.Since(), 3s);
  time.StepWall(-5s);
  EXPECT_EQ(steps.Since(), -2s) << "in all";
  EXPECT_EQ(ClockSteps(time).Since(), 0ns);
}

TEST(ClockSteps, MomentsStayWhereTheyWere) {
  SimulatedTime time;
  const ClockSteps steps(time);
  const WallTime meant = time.WallNow() + 10s;
  time.StepWall(1h);
  time.Advance(10s);
  EXPECT_EQ(steps.Moment(meant), time.MonoNow());
}

TEST(ClockSteps, SmallDifferencesAreReadingErrors) {
  SimulatedTime time;
  const ClockSteps steps(time);
  time.StepWall(900us);
  EXPECT_EQ(steps.Since(), 0ns);
  const SystemClock real;
  EXPECT_EQ(ClockSteps(real).Since(), 0ns);
}

}  // namespace
}  // namespace strobe
