#include "operator/trigger/stall_history.h"

#include <gmock/gmock.h>

namespace strobe::trigger {
namespace {

using namespace std::chrono_literals;

constexpr WallTime kFirstStall{1'700'000'000s};

// The run number `number` found the job standing still, because of a rank on a node.
TriggerRun Stall(int number, int rank, const std::string& node) {
  TriggerRun run;
  run.name = "stuck-" + std::to_string(number);
  run.job = "Job/llm";
  run.created = kFirstStall + number * 1h;
  run.stalled = true;
  run.stall_class = "Host";
  run.stall_confidence = "Firm";
  run.stall_verdict = "rank " + std::to_string(rank) + " holds up 3 others";
  run.culprits = {{.rank = rank, .pod = "llm-x", .node = node}};
  return run;
}

TEST(StallHistory, TheNewestStallIsTold) {
  const auto last = LastStallOf({Stall(2, 9, "node-3"), Stall(1, 4, "node-1")}, std::nullopt);
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(last->run, "stuck-2");
  EXPECT_EQ(last->time, kFirstStall + 2h);
  EXPECT_EQ(last->kind, "Host");
  EXPECT_EQ(last->confidence, "Firm");
  EXPECT_EQ(last->verdict, "rank 9 holds up 3 others");
  EXPECT_EQ(last->repeated, "");
}

TEST(StallHistory, TheSameRankAndNodeThreeTimesIsSaid) {
  const auto last = LastStallOf(
      {Stall(3, 9, "node-3"), Stall(2, 9, "node-3"), Stall(1, 9, "node-3")}, std::nullopt);
  EXPECT_EQ(last->repeated, "rank 9 on node-3 in the last 3 stalls");
}

TEST(StallHistory, ARankThatMovedAndANodeThatGotAnotherRankAreToldApart) {
  EXPECT_EQ(LastStallOf({Stall(3, 9, "node-1"), Stall(2, 9, "node-2"), Stall(1, 9, "node-3")},
                        std::nullopt)
                ->repeated,
            "rank 9 in the last 3 stalls");
  EXPECT_EQ(LastStallOf({Stall(3, 1, "node-3"), Stall(2, 7, "node-3"), Stall(1, 9, "node-1")},
                        std::nullopt)
                ->repeated,
            "node node-3 in the last 2 stalls");
  EXPECT_EQ(LastStallOf({Stall(3, 9, "node-3"), Stall(2, 9, "node-3"), Stall(1, 9, "node-1")},
                        std::nullopt)
                ->repeated,
            "rank 9 in the last 3 stalls; node node-3 in the last 2 stalls");
  EXPECT_EQ(
      LastStallOf({Stall(3, 9, ""), Stall(2, 4, ""), Stall(1, 9, "")}, std::nullopt)->repeated, "")
      << "a stall between them, of another rank, ends the row";
}

TEST(StallHistory, StallsOfOtherJobsAndRunsWithoutOneDoNotCount) {
  TriggerRun other = Stall(2, 9, "node-3");
  other.job = "Job/web";
  TriggerRun trace = Stall(3, 9, "node-3");
  trace.stalled = false;
  const auto last =
      LastStallOf({Stall(4, 9, "node-3"), trace, other, Stall(1, 9, "node-3")}, std::nullopt);
  EXPECT_EQ(last->repeated, "rank 9 on node-3 in the last 2 stalls");
}

TEST(StallHistory, TheVerdictOutlivesItsRunButNotItsWithdrawal) {
  const auto former = LastStallOf({Stall(2, 9, "node-3")}, std::nullopt);
  EXPECT_EQ(LastStallOf({}, former), former);
  TriggerRun withdrawn = Stall(2, 9, "node-3");
  withdrawn.stalled = false;
  EXPECT_EQ(LastStallOf({withdrawn}, former), std::nullopt);
  EXPECT_EQ(LastStallOf({withdrawn, Stall(1, 4, "node-1")}, former)->run, "stuck-1");
}

TEST(StallHistory, NobodyNamedIsNobodyRepeated) {
  TriggerRun first = Stall(1, 9, "node-3"), second = Stall(2, 9, "node-3");
  second.culprits.clear();
  EXPECT_EQ(RepeatedCulprit({&second, &first}), "");
  EXPECT_EQ(RepeatedCulprit({}), "");
}

}  // namespace
}  // namespace strobe::trigger
