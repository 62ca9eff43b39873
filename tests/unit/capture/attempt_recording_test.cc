#include "capture/attempt_recording.h"

#include <gmock/gmock.h>

namespace strobe::capture {
namespace {

using namespace std::chrono_literals;

constexpr WallTime kInstant{1000s};

class MakePlanTest : public testing::Test {
 protected:
  MakePlanTest() {
    attempt_.capture_id = "uid-2";
    attempt_.run = "run_attempt2";
    attempt_.plan = StartPlan{.instant = kInstant, .guard = 5ms};
    worker_.target.file = "w0";
    worker_.offset = 40ms;
    worker_.error = 1ms;
  }
  v1::CapturePlan Make(bool framework = false) {
    return MakePlan(spec_, attempt_, kInstant + 3min, worker_, framework);
  }

  Spec spec_;
  AttemptResult attempt_;
  WorkerResult worker_;
};

TEST_F(MakePlanTest, WritesTimesOnTheWorkersClock) {
  const v1::CapturePlan plan = Make();
  EXPECT_EQ(FromUnixNanos(plan.instant_ns()), kInstant + 40ms);
  EXPECT_EQ(FromUnixNanos(plan.deadline_ns()), kInstant + 3min + 40ms);
  EXPECT_EQ(plan.guard_ns(), Nanos(5ms).count());
  EXPECT_EQ(plan.clock_offset_ns(), Nanos(40ms).count());
  EXPECT_EQ(plan.clock_error_ns(), Nanos(1ms).count());
}

TEST_F(MakePlanTest, AnUnmeasuredClockHasANegativeError) {
  worker_.error.reset();
  EXPECT_EQ(Make().clock_error_ns(), -1);
}

TEST_F(MakePlanTest, TellsTheWorkersRole) {
  EXPECT_EQ(Make().role(), "");
  worker_.target.role = "prefill";
  EXPECT_EQ(Make().role(), "prefill");
}

TEST_F(MakePlanTest, NamesTheAttemptAndTheWorkersFile) {
  const v1::CapturePlan plan = Make();
  EXPECT_EQ(plan.capture_id(), "uid-2");
  EXPECT_EQ(plan.run(), "run_attempt2");
  EXPECT_EQ(plan.worker(), "w0");
}

TEST_F(MakePlanTest, ExpectsADeviceOnlyOfASourceThatRecordsIt) {
  worker_.target.planes = {.framework = true, .agent = false};
  EXPECT_FALSE(Make(/*framework=*/true).expects_device()) << "devices are not asked for";
  spec_.tracers.set_device(1);
  EXPECT_TRUE(Make(/*framework=*/true).expects_device());
  EXPECT_FALSE(Make(/*framework=*/false).expects_device()) << "the agent records";
  spec_.source = v1::SOURCE_FRAMEWORK;
  EXPECT_TRUE(Make(/*framework=*/false).expects_device());
  spec_.source = v1::SOURCE_AGENT;
  EXPECT_FALSE(Make(/*framework=*/true).expects_device());
}

TEST_F(MakePlanTest, OneContainerIsRecordedByTheAgentAlone) {
  spec_.tracers.set_device(1);
  worker_.target.planes = {.framework = true, .agent = false};
  worker_.target.only_container = "learner";
  const v1::CapturePlan plan = Make(/*framework=*/true);
  EXPECT_EQ(plan.container(), "learner");
  EXPECT_FALSE(plan.expects_device());
}

TEST_F(MakePlanTest, ALateStartIsDiscardedWhenTheRequestSaysSo) {
  EXPECT_FALSE(Make().discard_late());
  spec_.on_late_start = OnLateStart::kDiscard;
  EXPECT_TRUE(Make().discard_late());
}

}  // namespace
}  // namespace strobe::capture
