#include "sidecar/source/base/recording_times.h"

#include <gtest/gtest.h>

#include "tests/fakes/simulated_time.h"

namespace strobe::source {
namespace {

using namespace std::chrono_literals;

class RecordingTimesTest : public testing::Test {
 protected:
  RecordingTimesTest() {
    plan_.set_instant_ns(ToUnixNanos(time_.WallNow() + 1s));
    plan_.set_duration_ns(Nanos(2s).count());
    plan_.set_guard_ns(Nanos(100ms).count());
    plan_.set_deadline_ns(ToUnixNanos(time_.WallNow() + 10s));
    times_.emplace(time_, plan_);
  }
  void Go(Nanos duration) {
    for (; duration > 0ns; duration -= 20ms) {
      time_.Advance(20ms);
      times_->Look();
    }
  }

  SimulatedTime time_;
  v1::CapturePlan plan_;
  std::optional<RecordingTimes> times_;
};

TEST_F(RecordingTimesTest, MomentsDoNotMoveWithTheWallClock) {
  time_.StepWall(1h);
  EXPECT_EQ(times_->UntilStart(), 900ms);
  EXPECT_EQ(times_->UntilStop(), 3100ms);
  EXPECT_EQ(times_->UntilDeadline(), 10s);
  time_.Advance(4s);
  EXPECT_EQ(times_->UntilStop(), 0ns);
}

TEST_F(RecordingTimesTest, TellsStepsBeforeTheStartFromThoseAfterIt) {
  Go(500ms);
  time_.StepWall(3s);
  Go(2s);
  EXPECT_EQ(times_->set_while_recording(), 0ns);
  EXPECT_EQ(times_->SetAtStart(FromUnixNanos(plan_.instant_ns()) + 3s), 3s);
  time_.StepWall(-5s);
  Go(2s);
  EXPECT_EQ(times_->set_while_recording(), -5s);
  EXPECT_EQ(times_->SetAtStop(), -2s);
  time_.StepWall(7s);
  Go(1s);
  EXPECT_EQ(times_->SetAtStop(), -2s) << "what comes after the stop is nobody's business";
  EXPECT_EQ(times_->set_while_recording(), -5s);
}

TEST_F(RecordingTimesTest, AStepAtTheVeryStartIsTold) {
  Go(880ms);
  time_.StepWall(3s);
  Go(100ms);
  EXPECT_EQ(times_->set_while_recording(), 3s);
  const WallTime planned = FromUnixNanos(plan_.instant_ns()) - 100ms;
  EXPECT_EQ(times_->SetAtStart(planned + 3s + 2ms), 3s) << "it began after the step";
  EXPECT_EQ(times_->SetAtStart(planned + 1ms), 0s) << "it began before the step";
}

TEST_F(RecordingTimesTest, AStepBetweenThePlansReadingAndTheConstructionMovesNothing) {
  const Nanos read = time_.WallNow().time_since_epoch() - time_.MonoNow().time_since_epoch();
  plan_.set_wall_less_monotonic_ns(read.count());
  time_.StepWall(1h);
  RecordingTimes late(time_, plan_);
  EXPECT_EQ(late.UntilStart(), 900ms);
  EXPECT_EQ(late.UntilDeadline(), 10s);
  late.Look();
  EXPECT_EQ(late.set(), 1h);
}

TEST_F(RecordingTimesTest, StoppingEarlyShortensTheWindow) {
  EXPECT_EQ(times_->Recorded(), 2s);
  Go(1500ms);
  times_->StopNow();
  EXPECT_EQ(times_->Recorded(), 500ms);
  EXPECT_EQ(times_->UntilStop(), 0ns);
}

}  // namespace
}  // namespace strobe::source
