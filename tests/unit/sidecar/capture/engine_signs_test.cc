#include "sidecar/capture/engine_signs.h"

#include <gmock/gmock.h>

#include <string>

namespace strobe::session {
namespace {

using namespace std::chrono_literals;
using testing::IsEmpty;
using testing::SizeIs;

MonoTime EngineTime(Nanos since_start) { return MonoTime{since_start}; }

v1::SignRule EngineRule(v1::SignKind kind, std::uint32_t percent, std::uint32_t steps,
                        Nanos duration) {
  v1::SignRule rule;
  rule.set_id(kind == v1::SIGN_NO_STEP ? "t/NoStep" : "t/IterationSlower");
  rule.set_kind(kind);
  rule.set_percent(percent);
  rule.set_steps(steps);
  rule.set_duration_ns(duration.count());
  return rule;
}

v1::SignRule StallRule(Nanos duration) { return EngineRule(v1::SIGN_NO_STEP, 0, 0, duration); }

v1::SignRule TripleRule(std::uint32_t iterations) {
  return EngineRule(v1::SIGN_ITERATION_SLOWER, 200, iterations, Nanos{0});
}

// An engine that runs iterations one after the other.
class EngineTeller {
 public:
  void Run(Nanos took, std::uint64_t requests, std::uint64_t tokens) {
    Begin(requests, tokens);
    now_ += took;
    engine_.iterations.back().end = now_;
    now_ += 100us;
  }
  void Begin(std::uint64_t requests, std::uint64_t tokens) {
    engine_.iterations.push_back(
        {.number = ++number_, .begin = now_, .requests = requests, .tokens = tokens});
    if (engine_.iterations.size() > 255) engine_.iterations.erase(engine_.iterations.begin());
  }
  void Wait(Nanos time) { now_ += time; }
  EngineReading& engine() { return engine_; }
  MonoTime now() const { return now_; }
  std::vector<FoundSign> LookWith(EngineSignRules& rules) {
    return rules.Look(std::vector<EngineReading>{engine_}, now_);
  }

 private:
  EngineReading engine_{.process = "EngineCore 7"};
  std::int64_t number_ = 0;
  MonoTime now_ = EngineTime(1h);
};

class EngineSignsTest : public testing::Test {
 protected:
  void Want(std::vector<v1::SignRule> rules) { rules_.Set(rules); }
  // Decodes of four requests of 10 ms, and prefills of 1,000 tokens of 100 ms.
  void RunAsUsual(int rounds) {
    for (int i = 0; i < rounds; ++i) {
      for (int j = 0; j < 4; ++j) teller_.Run(10ms, 4, 4);
      teller_.Run(100ms, 1, 1000);
      EXPECT_THAT(teller_.LookWith(rules_), IsEmpty()) << i;
    }
  }

  EngineSignRules rules_{};
  EngineTeller teller_{};
};

TEST_F(EngineSignsTest, AnIterationOfThreeTimesItsUsualTimeIsASign) {
  Want({TripleRule(1)});
  RunAsUsual(20);
  teller_.Run(29ms, 4, 4);
  EXPECT_THAT(teller_.LookWith(rules_), IsEmpty());
  const MonoTime began = teller_.now();
  teller_.Run(31ms, 5, 5);
  const std::vector<FoundSign> found = teller_.LookWith(rules_);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].began, began);
  EXPECT_EQ(found[0].sign.rule(), "t/IterationSlower");
  EXPECT_EQ(found[0].sign.loop(), "engine");
  EXPECT_EQ(found[0].sign.process(), "EngineCore 7");
  EXPECT_EQ(Nanos{found[0].sign.step_ns()}, 31ms);
  EXPECT_EQ(Nanos{found[0].sign.usual_step_ns()}, 10ms);
  EXPECT_EQ(found[0].sign.batch_requests(), 5u);
  EXPECT_EQ(found[0].sign.batch_tokens(), 5u);
}

TEST_F(EngineSignsTest, APrefillIsComparedWithPrefills) {
  Want({TripleRule(1)});
  RunAsUsual(20);
  teller_.Run(290ms, 1, 900);
  EXPECT_THAT(teller_.LookWith(rules_), IsEmpty());
  teller_.Run(310ms, 1, 900);
  EXPECT_THAT(teller_.LookWith(rules_), SizeIs(1));
}

TEST_F(EngineSignsTest, BatchesOfASizeThatIsNewAreNotJudged) {
  Want({TripleRule(1)});
  RunAsUsual(20);
  for (int i = 0; i < 15; ++i) teller_.Run(500ms, 64, 64);
  EXPECT_THAT(teller_.LookWith(rules_), IsEmpty());
}

TEST_F(EngineSignsTest, ASignThatLastsIsToldOnceAndAgainAfterItWasGone) {
  Want({TripleRule(1)});
  RunAsUsual(20);
  for (int i = 0; i < 3; ++i) {
    teller_.Run(50ms, 4, 4);
    EXPECT_THAT(teller_.LookWith(rules_), SizeIs(i == 0 ? 1u : 0u)) << i;
    teller_.Run(10ms, 4, 4);
  }
  teller_.Wait(11s);
  EXPECT_THAT(teller_.LookWith(rules_), IsEmpty());
  teller_.Run(50ms, 4, 4);
  EXPECT_THAT(teller_.LookWith(rules_), SizeIs(1));
}

TEST_F(EngineSignsTest, SeveralSlowIterationsMayBeNeeded) {
  Want({TripleRule(3)});
  RunAsUsual(20);
  for (int i = 0; i < 2; ++i) teller_.Run(50ms, 4, 4);
  EXPECT_THAT(teller_.LookWith(rules_), IsEmpty());
  teller_.Wait(11s);  // After that, these two do not count.
  for (int i = 0; i < 2; ++i) teller_.Run(50ms, 4, 4);
  EXPECT_THAT(teller_.LookWith(rules_), IsEmpty());
  teller_.Run(50ms, 4, 4);
  EXPECT_THAT(teller_.LookWith(rules_), SizeIs(1));
}

TEST_F(EngineSignsTest, AnIterationThatDoesNotEndIsAStall) {
  Want({StallRule(30s)});
  RunAsUsual(2);
  const MonoTime began = teller_.now();
  teller_.Begin(4, 4);
  teller_.Wait(29s);
  EXPECT_THAT(teller_.LookWith(rules_), IsEmpty());
  teller_.Wait(2s);
  const std::vector<FoundSign> found = teller_.LookWith(rules_);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].began, began);
  EXPECT_EQ(Nanos{found[0].sign.usual_step_ns()}, 10ms);
  EXPECT_EQ(found[0].sign.batch_requests(), 4u);
  teller_.Wait(1s);
  EXPECT_THAT(teller_.LookWith(rules_), IsEmpty()) << "it lasts";
  teller_.engine().iterations.back().end = teller_.now();
  EXPECT_THAT(teller_.LookWith(rules_), IsEmpty());
  teller_.Begin(1, 1);
  teller_.Wait(31s);
  EXPECT_THAT(teller_.LookWith(rules_), SizeIs(1)) << "another one";
}

TEST_F(EngineSignsTest, AnEngineWithoutRequestsIsNoStall) {
  Want({StallRule(30s)});
  RunAsUsual(5);
  teller_.Wait(2h);
  EXPECT_THAT(teller_.LookWith(rules_), IsEmpty());
}

TEST_F(EngineSignsTest, StandingStillIsASignOnlyWhileThereAreRequests) {
  v1::SignRule rule = EngineRule(v1::SIGN_STALLED, 0, 1000, 3s);
  Want({rule});
  RunAsUsual(2);
  teller_.Wait(2h);
  EXPECT_THAT(teller_.LookWith(rules_), IsEmpty());
  teller_.Begin(4, 4);
  teller_.Wait(9s);
  EXPECT_THAT(teller_.LookWith(rules_), IsEmpty()) << "1000 usual iterations take ten seconds";
  teller_.Wait(2s);
  EXPECT_THAT(teller_.LookWith(rules_), SizeIs(1));
}

TEST_F(EngineSignsTest, OnlyEnginesThatStandStillAreJudgedAsJobs) {
  std::vector<v1::StepPace> told(1);
  told[0].set_loop("engine");
  told[0].set_process("EngineCore 7");
  const auto judged = [&] {
    std::vector<v1::StepPace> left = told;
    RemoveMovingEngines(std::vector<EngineReading>{teller_.engine()}, teller_.now(), left);
    return left.size();
  };
  teller_.Run(10ms, 4, 4);
  teller_.Wait(2h);
  EXPECT_EQ(judged(), 0u) << "it has no requests";
  teller_.Begin(4, 4);
  EXPECT_EQ(judged(), 0u) << "its last step was two hours ago, and one begins now";
  teller_.Wait(4s);
  EXPECT_EQ(judged(), 1u);
}

TEST_F(EngineSignsTest, CountsRequestsByTheQueueOrTheLastBatches) {
  const auto requests = [&] {
    return RunningRequests(std::vector<EngineReading>{teller_.engine()}, teller_.now());
  };
  EXPECT_EQ(RunningRequests({}, teller_.now()), std::nullopt);
  EXPECT_EQ(requests(), 0u);
  teller_.Run(10ms, 4, 4);
  EXPECT_EQ(requests(), 4u);
  teller_.Wait(2s);
  EXPECT_EQ(requests(), 0u) << "it rests";
  teller_.engine().running = 2;
  teller_.engine().waiting = 1;
  EXPECT_EQ(requests(), 0u) << "the queue is not one of now";
  teller_.engine().busy_since = teller_.now();
  EXPECT_EQ(requests(), 3u);
  teller_.Begin(6, 6);
  teller_.Wait(1h);
  EXPECT_EQ(requests(), 6u) << "an iteration still runs";
}

// The process that schedules and the one that runs the model may be two.
TEST_F(EngineSignsTest, ASchedulerWhoseRequestsGetNoIterationIsAStall) {
  Want({StallRule(30s)});
  EngineReading& scheduler = teller_.engine();
  scheduler.running = 2;
  scheduler.waiting = 5;
  scheduler.busy_since = teller_.now();
  teller_.Wait(25s);
  scheduler.worked = teller_.now();
  teller_.Wait(25s);
  EXPECT_THAT(teller_.LookWith(rules_), IsEmpty());
  teller_.Wait(10s);
  const std::vector<FoundSign> found = teller_.LookWith(rules_);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].began, *scheduler.worked);
  EXPECT_EQ(found[0].sign.running(), 2u);
  EXPECT_EQ(found[0].sign.waiting(), 5u);
  scheduler.running = scheduler.waiting = 0;
  scheduler.busy_since.reset();
  EXPECT_THAT(teller_.LookWith(rules_), IsEmpty());
}

TEST_F(EngineSignsTest, OtherRulesAreLeftToJobSigns) {
  Want({EngineRule(v1::SIGN_STEPS_SLOWER, 10, 3, Nanos{0}),
        EngineRule(v1::SIGN_MEMORY_NEAR_LIMIT, 90, 0, Nanos{0})});
  EXPECT_TRUE(rules_.empty());
  Want({StallRule(30s)});
  EXPECT_FALSE(rules_.empty());
  Want({});
  EXPECT_TRUE(rules_.empty());
}

TEST_F(EngineSignsTest, IterationsAreNoStepsOfTraining) {
  std::vector<v1::StepPace> told(3);
  told[0].set_loop("engine");
  told[0].set_process("EngineCore 7");
  told[1].set_loop("ProfilerStep");  // A trainer is in the same process.
  told[1].set_process("EngineCore 7");
  told[2].set_loop("engine");  // It is an annotation of the program.
  told[2].set_process("python 8");
  RemoveIterations(std::vector<EngineReading>{teller_.engine()}, told);
  ASSERT_THAT(told, SizeIs(2));
  EXPECT_EQ(told[0].loop(), "ProfilerStep");
  EXPECT_EQ(told[1].process(), "python 8");
}

TEST_F(EngineSignsTest, AProcessThatEndedIsForgotten) {
  Want({TripleRule(1)});
  RunAsUsual(20);
  EXPECT_THAT(rules_.Look({}, teller_.now()), IsEmpty());
  teller_.engine().iterations.clear();
  teller_.Run(50ms, 4, 4);
  EXPECT_THAT(teller_.LookWith(rules_), IsEmpty()) << "what is usual is not known";
}

}  // namespace
}  // namespace strobe::session
