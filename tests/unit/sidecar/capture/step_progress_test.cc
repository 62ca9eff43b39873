#include "sidecar/capture/step_progress.h"

#include <gmock/gmock.h>

namespace strobe::session {
namespace {

using namespace std::chrono_literals;

constexpr WallTime kStepNow{1000s};

TEST(IsLoop, TakesNamesThatAreToldCut) {
  const std::string ascii(60, 'x');
  // Two bytes each, so that the 48th byte is the first half of one.
  const std::string umlauts = "xäöüäöüäöüäöüäöüäöüäöüäöüäöü";
  EXPECT_TRUE(IsLoop("train", "train"));
  EXPECT_FALSE(IsLoop("train", "trai"));
  EXPECT_TRUE(IsLoop(ascii, ascii.substr(0, 48)));
  EXPECT_FALSE(IsLoop(ascii, ascii.substr(0, 47)));
  EXPECT_TRUE(IsLoop(umlauts, umlauts.substr(0, 47)));
}

v1::StepPace PaceAt(std::int64_t number, Nanos ago, Nanos period, bool ended = false) {
  v1::StepPace pace;
  pace.set_loop("train");
  pace.set_number(number);
  pace.set_began_ns(ToUnixNanos(kStepNow - ago));
  if (ended) pace.set_ended_ns(ToUnixNanos(kStepNow));
  pace.set_period_ns(period.count());
  return pace;
}

class ProgressOfTest : public testing::Test {
 protected:
  ProgressOfTest() {
    plan_.set_steps(3);
    plan_.set_first_step(110);
    plan_.set_step_loop("train");
  }
  StepProgress Of(std::vector<v1::StepPace> told) { return ProgressOf(plan_, told, kStepNow); }
  v1::CapturePlan plan_;
};

TEST_F(ProgressOfTest, NothingIsKnownOfAnotherLoop) {
  plan_.set_step_loop("eval");
  const StepProgress progress = Of({PaceAt(200, 10ms, 100ms)});
  EXPECT_EQ(progress.processes, 0u);
  EXPECT_FALSE(progress.begun || progress.finished);
  EXPECT_EQ(progress.soonest, kStepNow);
}

TEST_F(ProgressOfTest, TheFastestProcessTellsWhenTheFirstStepMayBegin) {
  const StepProgress progress = Of({PaceAt(100, 10ms, 100ms), PaceAt(105, 20ms, 100ms)});
  EXPECT_EQ(progress.processes, 2u);
  EXPECT_FALSE(progress.begun || progress.finished);
  // Steps 106 to 109 are left to the second one.
  EXPECT_EQ(progress.soonest, kStepNow - 20ms + 75ms * 5);
  EXPECT_EQ(progress.earliest, kStepNow - 20ms + 25ms * 5) << "if the machine was starved so far";
  EXPECT_EQ(progress.latest, kStepNow - 10ms + 150ms * 13) << "the first one ends step 112 last";
}

TEST_F(ProgressOfTest, AStepThatIsOverdueMayEndAtOnce) {
  EXPECT_EQ(Of({PaceAt(109, 5s, 100ms)}).soonest, kStepNow);
  EXPECT_EQ(Of({PaceAt(108, 5s, 100ms)}).soonest, kStepNow + 75ms);
  EXPECT_EQ(Of({PaceAt(108, 5s, 100ms)}).earliest, kStepNow + 25ms);
}

TEST_F(ProgressOfTest, ItHasEndedWhenAllHaveEndedTheLastStep) {
  EXPECT_TRUE(Of({PaceAt(110, 1ms, 100ms)}).begun);
  EXPECT_FALSE(Of({PaceAt(112, 1ms, 100ms)}).finished) << "the last one runs";
  EXPECT_TRUE(Of({PaceAt(112, 1ms, 100ms, true)}).finished);
  EXPECT_TRUE(Of({PaceAt(113, 1ms, 100ms)}).finished);
  EXPECT_FALSE(Of({PaceAt(113, 1ms, 100ms), PaceAt(111, 1ms, 100ms)}).finished);
}

TEST_F(ProgressOfTest, ForgedNumbersDoNotOverflow) {
  v1::StepPace pace = PaceAt(0, 0ms, Nanos::max());
  plan_.set_first_step(std::int64_t{1} << 53);
  EXPECT_GT(Of({pace}).soonest, kStepNow);
  pace.set_period_ns(-5);
  EXPECT_GE(Of({pace}).soonest, kStepNow);
}

}  // namespace
}  // namespace strobe::session
