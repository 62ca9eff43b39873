#include "sidecar/source/step_memory.h"

#include <gtest/gtest.h>

namespace strobe {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::int64_t kStepMs = 1'000'000;

v1::StepPace Pace(std::int64_t number, std::int64_t began_ms, std::int64_t period_ms) {
  v1::StepPace pace;
  pace.set_loop("train");
  pace.set_number(number);
  pace.set_began_ns(began_ms * kStepMs);
  pace.set_ended_ns(began_ms * kStepMs + 1);
  pace.set_period_ns(period_ms * kStepMs);
  return pace;
}

WallTime At(std::int64_t ms) { return FromUnixNanos(ms * kStepMs); }

TEST(StepMemory, AProcessThatDoesNotAnswerInTimeGoesOnAtItsPace) {
  StepMemory memory;
  EXPECT_EQ(memory.Patience("7.sock", seconds(2)), seconds(2));
  EXPECT_EQ(memory.Take("7.sock", {{Pace(10, 1000, 100)}}, At(1000)).front().number(), 10);
  EXPECT_EQ(memory.Patience("7.sock", seconds(2)), milliseconds(200));
  const auto expected = memory.Take("7.sock", std::nullopt, At(1350));
  ASSERT_EQ(expected.size(), 1u);
  EXPECT_EQ(expected.front().loop(), "train");
  EXPECT_EQ(expected.front().number(), 13);
  EXPECT_EQ(expected.front().began_ns(), 1300 * kStepMs);
  EXPECT_EQ(expected.front().ended_ns(), 0) << "it runs";
  EXPECT_EQ(memory.Take("7.sock", std::nullopt, At(1450)).front().number(), 14);
  EXPECT_EQ(memory.Take("7.sock", {{Pace(12, 1400, 100)}}, At(1450)).front().number(), 12)
      << "what it says counts";
}

TEST(StepMemory, AProcessThatNeverAnsweredIsWaitedForOnce) {
  StepMemory memory;
  EXPECT_TRUE(memory.Take("7.sock", std::nullopt, At(0)).empty());
  EXPECT_EQ(memory.Patience("7.sock", seconds(2)), milliseconds(200));
  EXPECT_EQ(memory.Patience("8.sock", seconds(1)), seconds(1));
}

TEST(StepMemory, AProcessThatTellsNoStepsAnyMoreIsBelieved) {
  StepMemory memory;
  memory.Take("7.sock", {{Pace(10, 1000, 100)}}, At(1000));
  EXPECT_TRUE(memory.Take("7.sock", std::vector<v1::StepPace>(), At(1100)).empty());
  EXPECT_TRUE(memory.Take("7.sock", std::nullopt, At(1200)).empty());
}

TEST(StepMemory, ProcessesThatAreGoneAreForgotten) {
  StepMemory memory;
  memory.Take("7.sock", {{Pace(10, 1000, 100)}}, At(1000));
  memory.Take("8.sock", {{Pace(10, 1000, 100)}}, At(1000));
  memory.KeepOnly({"8.sock"});
  EXPECT_TRUE(memory.Take("7.sock", std::nullopt, At(1000)).empty());
  EXPECT_EQ(memory.Take("8.sock", std::nullopt, At(1000)).size(), 1u);
}

TEST(ContinuedAt, NeedsAPace) {
  EXPECT_EQ(ContinuedAt(Pace(10, 1000, 0), At(9000)).number(), 10);
  EXPECT_EQ(ContinuedAt(Pace(10, 1000, 100), At(1099)).number(), 10);
  EXPECT_EQ(ContinuedAt(Pace(10, 1000, 100), At(900)).number(), 10) << "the clock was set back";
}

}  // namespace
}  // namespace strobe
