#include "sidecar/capture/harm.h"

#include <gmock/gmock.h>

namespace strobe::session {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr MonoTime kBegin{1000s};

// A loop whose steps follow each other without a gap.
class Loop {
 public:
  explicit Loop(HarmRule& rule) : rule_(rule) {}
  std::optional<Harm> Step(Nanos length, const std::string& loop = "train") {
    const MonoTime begin = now;
    now += length;
    return rule_.Judge({.steps = {{loop, begin, now}}}, now);
  }
  std::optional<Harm> Wait(Nanos time, bool missing = false) {
    now += time;
    return rule_.Judge({.steps_missing = missing}, now);
  }
  MonoTime now = kBegin;

 private:
  HarmRule& rule_;
};

TEST(HarmRule, MemoryNearItsLimitIsHarm) {
  HarmRule rule({.memory_percent = 95});
  EXPECT_FALSE(rule.Judge({.memory_used = 94 << 20, .memory_limit = 100 << 20}, kBegin));
  EXPECT_EQ(rule.effect().memory_percent(), 94u);
  const auto harm = rule.Judge({.memory_used = 96 << 20, .memory_limit = 100 << 20}, kBegin);
  ASSERT_TRUE(harm);
  EXPECT_EQ(harm->message,
            "the trainer uses 96% of its memory limit of 100 MiB; captures end at 95%");
  EXPECT_FALSE(harm->keep) << "collecting takes memory too";
}

TEST(HarmRule, AForgedUseIsAboveTheLimitToo) {
  HarmRule rule({.memory_percent = 95});
  EXPECT_TRUE(rule.Judge({.memory_used = ~0ull, .memory_limit = 1}, kBegin));
}

TEST(HarmRule, WithoutALimitNothingIsNearIt) {
  HarmRule rule({.memory_percent = 95});
  EXPECT_FALSE(rule.Judge({.memory_used = 1ull << 50}, kBegin));
  HarmRule any({.memory_percent = 0});
  EXPECT_FALSE(any.Judge({.memory_used = 100, .memory_limit = 100}, kBegin));
  EXPECT_EQ(any.effect().memory_percent(), 100u);
}

TEST(HarmRule, ThreeSlowStepsAreHarmOneIsACheckpoint) {
  HarmRule rule({.slowdown_percent = 50});
  Loop loop(rule);
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(loop.Step(100ms));
  rule.Recording(loop.now);
  EXPECT_FALSE(loop.Step(300ms));
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(loop.Step(149ms));
  EXPECT_FALSE(loop.Step(160ms));
  const auto harm = loop.Step(160ms);
  ASSERT_TRUE(harm);
  EXPECT_TRUE(harm->keep);
  EXPECT_EQ(harm->message,
            "steps of train took 100ms before and 160ms while recorded; captures end when they are "
            "50% slower");
  EXPECT_EQ(rule.effect().step_before_ns(), Nanos(100ms).count());
  EXPECT_EQ(rule.effect().step_during_ns(), Nanos(149ms).count());
}

TEST(HarmRule, NoStepThatEndsIsHarmToo) {
  HarmRule rule({.slowdown_percent = 100});
  Loop loop(rule);
  for (int i = 0; i < 3; ++i) loop.Step(100ms);
  rule.Recording(loop.now);
  EXPECT_FALSE(loop.Wait(599ms));
  const auto harm = loop.Wait(2ms);
  ASSERT_TRUE(harm);
  EXPECT_THAT(harm->message, HasSubstr("none has ended for 601ms"));
}

TEST(HarmRule, StepsThatCouldNotBeSeenAreNotSlow) {
  HarmRule rule({.slowdown_percent = 100});
  Loop loop(rule);
  for (int i = 0; i < 3; ++i) loop.Step(100ms);
  rule.Recording(loop.now);
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(loop.Wait(500ms, true));
}

TEST(HarmRule, AStepThatWasUnderWayIsComparedWithNothing) {
  HarmRule rule({.slowdown_percent = 10});
  Loop loop(rule);
  for (int i = 0; i < 3; ++i) loop.Step(100ms);
  rule.Recording(loop.now + 1ms);
  loop.Step(105ms);
  EXPECT_EQ(rule.effect().step_during_ns(), 0);
}

TEST(HarmRule, TooFewStepsBeforeCompareWithNothing) {
  HarmRule rule({.slowdown_percent = 10});
  Loop loop(rule);
  for (int i = 0; i < 2; ++i) loop.Step(100ms);
  rule.Recording(loop.now);
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(loop.Step(900ms));
  EXPECT_EQ(rule.effect().step_before_ns(), 0);
}

TEST(HarmRule, TheLoopThatTakesMostOfTheTimeCounts) {
  HarmRule rule({.slowdown_percent = 100});
  Loop loop(rule);
  for (int i = 0; i < 4; ++i) {
    loop.Step(100ms);
    loop.Step(10ms, "load");
  }
  rule.Recording(loop.now);
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(loop.Step(110ms)) << "and that nobody loads any more is no harm";
    EXPECT_FALSE(loop.Step(50ms, "load"));
  }
}

TEST(HarmRule, AfterTheRecordingStepsAreNoMoreLookedAt) {
  HarmRule rule({.memory_percent = 90, .slowdown_percent = 10});
  Loop loop(rule);
  for (int i = 0; i < 3; ++i) loop.Step(100ms);
  rule.Recording(loop.now);
  rule.Collecting();
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(loop.Step(900ms));
  EXPECT_TRUE(rule.Judge({.memory_used = 95, .memory_limit = 100}, loop.now))
      << "collecting takes memory";
}

TEST(HarmRule, ForgetsWhatIsTooMuch) {
  HarmRule rule({.slowdown_percent = 10});
  Loop loop(rule);
  for (int i = 0; i < 10'000; ++i) loop.Step(1ms, "loop " + std::to_string(i));
  for (int i = 0; i < 1'000; ++i) loop.Step(1s, "loop 1");
  rule.Recording(loop.now);
  EXPECT_EQ(rule.effect().step_before_ns(), Nanos(1s).count());
}

}  // namespace
}  // namespace strobe::session
