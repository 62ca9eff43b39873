#include "common/base/clock_steps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

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

// Each reading takes a microsecond; the thread loses its processor during some of them.
class BusyClock final : public Clock {
 public:
  explicit BusyClock(std::vector<int> lost) : lost_(std::move(lost)) {}
  WallTime WallNow() const override { return WallTime{Read() + 1h}; }
  MonoTime MonoNow() const override { return MonoTime{Read()}; }

 private:
  Nanos Read() const {
    const bool loses = std::find(lost_.begin(), lost_.end(), readings_++) != lost_.end();
    return now_ += loses ? Nanos{20ms} : Nanos{1us};
  }
  const std::vector<int> lost_;
  mutable int readings_ = 0;
  mutable Nanos now_{0};
};

TEST(WallLessMonotonic, IsExactOnABusyMachine) {
  EXPECT_EQ(WallLessMonotonic(BusyClock({})), 1h);
  EXPECT_EQ(WallLessMonotonic(BusyClock({1})), 1h);
  EXPECT_EQ(WallLessMonotonic(BusyClock({2, 4})), 1h);
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
