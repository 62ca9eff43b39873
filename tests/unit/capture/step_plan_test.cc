#include "capture/step_plan.h"

#include <gmock/gmock.h>

#include <random>

namespace strobe::capture {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using From = StepsWanted::From;

constexpr WallTime kPaceNow{5000s};

WorkerPace Worker(const std::string& name, std::int64_t number, Nanos period, Nanos ago = 0ms,
                  const std::string& loop = "train") {
  return {name, {{loop, false, number, kPaceNow - ago, period}}};
}

std::string Refusal(const absl::StatusOr<StepPlan>& plan) {
  EXPECT_TRUE(absl::IsFailedPrecondition(plan.status())) << plan.status();
  return std::string(plan.status().message());
}

TEST(PlanStep, TheNextStepIsTheFirstThatNobodyReachesTooSoon) {
  const std::vector<WorkerPace> workers = {Worker("a", 100, 100ms), Worker("b", 90, 200ms)};
  const auto plan = PlanStep({.count = 5}, kPaceNow, kPaceNow + 1s, workers);
  ASSERT_TRUE(plan.ok()) << plan.status();
  // Worker a may begin a step every 25 ms: step 140 after 1 s.
  EXPECT_EQ(plan->first, 140);
  EXPECT_EQ(plan->last(), 144);
  EXPECT_EQ(plan->loop, "train");
  EXPECT_EQ(plan->expected[0].begin, kPaceNow + 4000ms);
  EXPECT_EQ(plan->expected[0].end, kPaceNow + 4500ms);
  EXPECT_EQ(plan->expected[1].begin, kPaceNow + 50 * 200ms);
  EXPECT_EQ(plan->begin, plan->expected[0].begin);
  EXPECT_GE(plan->by, plan->expected[1].end);
}

TEST(PlanStep, AMultipleIsRoundedUp) {
  const auto plan = PlanStep({From::kMultipleOf, 50, 1}, kPaceNow, kPaceNow + 1s,
                             std::vector{Worker("a", 100, 100ms)});
  EXPECT_EQ(plan->first, 150);
}

// Regression: with `steps`, a policy's maxDuration bounded nothing.
TEST(PlanStep, AShorterLimitBoundsTheStepsAndTheTimeUntilTheyMustHaveEnded) {
  const std::vector<WorkerPace> workers = {Worker("a", 100, 100ms), Worker("b", 90, 200ms)};
  const auto plan = PlanStep({.count = 5}, kPaceNow, kPaceNow + 1s, workers, 2s);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->by, plan->expected[1].begin + 2s);
  EXPECT_THAT(Refusal(PlanStep({.count = 11}, kPaceNow, kPaceNow + 1s, workers, 2s)),
              HasSubstr("b: 11 steps take about 2.2s; at most 2s can be recorded"));
}

TEST(PlanStep, AStepThatHasPassedIsRefusedByName) {
  const std::vector<WorkerPace> workers = {Worker("a", 100, 100ms), Worker("b", 130, 100ms)};
  EXPECT_EQ(Refusal(PlanStep({From::kNumber, 130, 1}, kPaceNow, kPaceNow + 1s, workers)),
            "b: step 130 has passed; the worker is at step 130");
  EXPECT_EQ(Refusal(PlanStep({From::kNumber, 132, 1}, kPaceNow, kPaceNow + 1s, workers)),
            "b: step 132 comes too soon; the first step for which all workers can be armed is 170");
  EXPECT_EQ(PlanStep({From::kNumber, 200, 1}, kPaceNow, kPaceNow + 1s, workers)->first, 200);
}

TEST(PlanStep, AStepThatIsTooFarAwayIsRefusedByName) {
  const std::vector<WorkerPace> workers = {Worker("a", 100, 100ms), Worker("slow", 100, 10s)};
  EXPECT_THAT(Refusal(PlanStep({From::kNumber, 1000, 1}, kPaceNow, kPaceNow + 1s, workers)),
              HasSubstr("slow: it is at step 100 and would reach step 1000 only in 2h30m"));
  EXPECT_THAT(Refusal(PlanStep({From::kNext, 0, 100}, kPaceNow, kPaceNow + 1s, workers)),
              HasSubstr("slow: 100 steps take about 16m40s; at most 10m can be recorded"));
}

TEST(PlanStep, WorkersThatTellNothingInCommonAreFoundOut) {
  const auto why = [](std::vector<WorkerPace> workers) {
    const absl::Status status = PlanStep({}, kPaceNow, kPaceNow + 1s, workers).status();
    EXPECT_TRUE(absl::IsNotFound(status)) << status;
    return std::string(status.message());
  };
  EXPECT_EQ(why({Worker("a", 1, 1s), {"b", {}}}), "b reports no steps");
  EXPECT_EQ(why({Worker("a", 1, 1s), Worker("b", 1, 1s, 0s, "eval")}),
            "the workers do not report steps of the same loop");
  EXPECT_EQ(why({Worker("a", 1, 0s)}), "the workers do not report steps of the same loop")
      << "one step has no pace yet";
}

TEST(PlanStep, TheLoopThatRunsIsChosenAndAFrameworksFirst) {
  std::vector<WorkerPace> workers = {Worker("a", 100, 1s, 60s, "warmup"),
                                     Worker("b", 100, 1s, 50s, "warmup")};
  for (WorkerPace& worker : workers) worker.loops.push_back({"train", false, 5, kPaceNow - 1s, 1s});
  EXPECT_EQ(PlanStep({}, kPaceNow, kPaceNow + 1s, workers)->loop, "train");
  for (WorkerPace& worker : workers)
    worker.loops.push_back({"ProfilerStep", true, 5, kPaceNow - 2s, 1s});
  EXPECT_EQ(PlanStep({}, kPaceNow, kPaceNow + 1s, workers)->loop, "ProfilerStep");
}

TEST(PlanStep, TheFastestProcessOfAWorkerCounts) {
  WorkerPace both = Worker("a", 100, 100ms);
  both.loops.push_back({"train", false, 110, kPaceNow, 100ms});
  EXPECT_EQ(PlanStep({}, kPaceNow, kPaceNow + 1s, std::vector{both})->first, 150);
}

// A server whose iterations take 2 ms or 200 ms.
WorkerPace Server(Nanos usual) {
  WorkerPace server = Worker("server", 100, usual);
  server.loops[0].fastest = 2ms;
  server.loops[0].slowest = 200ms;
  return server;
}

// Regression: such servers had passed the first step before they were armed, or did not reach it in
// time.
TEST(PlanStep, AServerWhosePaceChangesAHundredfold) {
  const auto plan = [](Nanos usual, Nanos longest = kMaxStepsTime) {
    return *PlanStep({.count = 30}, kPaceNow, kPaceNow + 1s, std::vector{Server(usual)}, longest);
  };
  const StepPlan slow = plan(20ms);
  EXPECT_EQ(slow.first, 600) << "after 1 s at 2 ms each, and not 300";
  EXPECT_EQ(slow.expected[0].begin, kPaceNow + 500 * 20ms);
  const StepPlan slowest = plan(200ms);
  EXPECT_EQ(slowest.first, 401) << "at the usual pace, nobody waits longer than a minute";
  const StepPlan fast = plan(2ms);
  EXPECT_EQ(fast.first, 2100);
  EXPECT_EQ(fast.by, fast.expected[0].end + 5min + 30s) << "2,030 slow steps would take 6m46s";
  EXPECT_EQ(plan(2ms, 5s).by, fast.expected[0].begin + 5s) << "limits hold";
}

TEST(PlanStep, StepsThatAlternateAreNoChangeOfPace) {
  WorkerPace both = Worker("gan", 100, 100ms);
  both.loops[0].fastest = 60ms;
  both.loops[0].slowest = 110ms;
  const auto plan = PlanStep({.count = 5}, kPaceNow, kPaceNow + 1s, std::vector{both});
  const auto usual =
      PlanStep({.count = 5}, kPaceNow, kPaceNow + 1s, std::vector{Worker("gan", 100, 100ms)});
  EXPECT_EQ(plan->first, usual->first);
  EXPECT_EQ(plan->by, usual->by);
}

TEST(PlanStep, AForgedSpreadIsBounded) {
  WorkerPace forged = Worker("a", 100, 1s);
  forged.loops[0].fastest = Nanos{1};
  forged.loops[0].slowest = std::chrono::hours(1'000'000);
  const auto plan = PlanStep({.count = 5}, kPaceNow, kPaceNow + 1s, std::vector{forged});
  EXPECT_EQ(plan->first, 161);
  EXPECT_EQ(plan->by, plan->expected[0].end + 5min + 30s);
}

// Runs ranks whose steps vary around their pace, and checks what the plan promises: nobody begins
// the first step before `soonest`, and everybody has ended the last one in time.
TEST(PlanStep, KeepsItsPromiseForRanksOfAnyPace) {
  std::mt19937_64 random(7);
  const auto between = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  for (int round = 0; round < 500; ++round) {
    const double usual_ms = std::exp(between(std::log(0.5), std::log(20'000)));
    const auto number = static_cast<std::int64_t>(between(0, 1e6));
    const Nanos lead{static_cast<std::int64_t>(between(5e7, 5e9))};
    StepsWanted wanted{.count = static_cast<std::uint32_t>(between(1, 20))};
    if (round % 3 == 1) {
      wanted.from = From::kMultipleOf;
      wanted.number = static_cast<std::int64_t>(between(1, 30));
    }
    std::vector<WorkerPace> workers;
    for (int rank = 0; rank < 8; ++rank) {
      const Nanos period{static_cast<std::int64_t>(usual_ms * between(0.8, 1.25) * 1e6)};
      workers.push_back(Worker(
          "rank", number + static_cast<std::int64_t>(between(0, 5)), period,
          Nanos{static_cast<std::int64_t>(between(0, static_cast<double>(period.count())))}));
    }
    const auto plan = PlanStep(wanted, kPaceNow, kPaceNow + lead, workers);
    ASSERT_TRUE(plan.ok()) << plan.status();
    if (wanted.from == From::kMultipleOf) {
      ASSERT_EQ(plan->first % wanted.number, 0);
    }
    for (const WorkerPace& worker : workers) {
      const LoopPace& pace = worker.loops[0];
      WallTime at = pace.began;
      for (std::int64_t step = pace.number + 1; step <= plan->last() + 1; ++step) {
        at += Nanos{static_cast<std::int64_t>(static_cast<double>(pace.period.count()) *
                                              between(0.26, 1.3))};
        at = std::max(at, kPaceNow);
        if (step == plan->first) {
          ASSERT_GE(at, kPaceNow + lead);
        }
      }
      ASSERT_LE(at, plan->by);
    }
  }
}

}  // namespace
}  // namespace strobe::capture
