#include "collector/trace/report/arrivals.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

namespace strobe::report {
namespace {

// Three workers arrive at one collective at 10, 40 and 60.
Job ThreeArrive(std::optional<std::int64_t> first_error, std::int64_t last_error) {
  Job job;
  job.types = {{"all-reduce", true}};
  job.workers.resize(3);
  job.workers[0].clock_error_ns = first_error;
  job.workers[1].clock_error_ns = 1;
  job.workers[2].clock_error_ns = last_error;
  job.communicators = {{.name = "0", .members = {0, 1, 2}}};
  JobStep& step = job.steps.emplace_back();
  step.collectives.resize(1);
  for (std::uint32_t worker = 0; worker < 3; ++worker) {
    const std::int64_t arrivals[] = {10, 40, 60};
    step.workers.push_back({.worker = worker});
    step.Add({.begin_ns = arrivals[worker], .end_ns = 100, .worker = worker, .collective = 0}, {});
  }
  return job;
}

TEST(ComputeArrivals, TheLastMakesTheOthersWait) {
  const Job job = ThreeArrive(1, 1);
  const auto last = LastArrivals(job, job.steps[0])[0];
  ASSERT_TRUE(last);
  EXPECT_EQ(last->last, 2u);
  EXPECT_EQ(last->ahead_ns, 20);
  EXPECT_EQ(last->error_ns, 2);
  EXPECT_EQ(last->waited_ns, 50 + 20);
  const Arrivals arrivals = ComputeArrivals(job);
  EXPECT_EQ(arrivals.workers[2].last, 1u);
  EXPECT_EQ(arrivals.workers[2].made_wait_ns, 70);
  EXPECT_EQ(arrivals.workers[0].waited_ns, 50);
  EXPECT_THAT(arrivals.waited_ns, testing::ElementsAre(testing::ElementsAre(50, 20, 0)));
  ASSERT_EQ(arrivals.calls.size(), 1u);
  EXPECT_EQ(arrivals.calls[0].most_often_last, 2u);
}

TEST(ComputeArrivals, AnyMemberWhoCouldHaveBeenLaterLeavesItOpen) {
  for (const Job& job : {ThreeArrive(60, 1),             // The first could have arrived at 70.
                         ThreeArrive(1, 25),             // The last could have arrived at 35.
                         ThreeArrive(std::nullopt, 1)})  // The first at any time.
  {
    EXPECT_FALSE(LastArrivals(job, job.steps[0])[0]->decided());
    const Arrivals arrivals = ComputeArrivals(job);
    EXPECT_EQ(arrivals.workers[2].last, 0u);
    EXPECT_EQ(arrivals.calls[0].undecided, 1u);
    EXPECT_EQ(arrivals.calls[0].times_last, 0u);
  }
}

// The first is in its call for 90 ms, the second for 60 and the last for 40, by their own clocks.
TEST(ComputeArrivals, DurationsTellTheLastOneWhereClocksDoNot) {
  constexpr std::int64_t kArrivalMs = 1'000'000;
  Job job = ThreeArrive(std::nullopt, 1);
  const std::int64_t offsets[] = {700 * kArrivalMs, -300 * kArrivalMs, 0};
  for (Operation& operation : job.steps[0].operations) {
    operation.begin_ns = operation.begin_ns * kArrivalMs + offsets[operation.worker];
    operation.end_ns = operation.end_ns * kArrivalMs + offsets[operation.worker];
  }
  // A lead of 20 ms is not more than half of the transfer's 40.
  EXPECT_FALSE(LastArrivals(job, job.steps[0])[0]->decided());
  job.steps[0].operations[2].begin_ns += 30 * kArrivalMs;  // In it for 10 ms only.
  const auto last = LastArrivals(job, job.steps[0])[0];
  ASSERT_TRUE(last);
  EXPECT_TRUE(last->decided());
  EXPECT_EQ(last->last, 2u);
  EXPECT_EQ(last->waited_ns, (80 + 50) * kArrivalMs);
  const Arrivals arrivals = ComputeArrivals(job);
  EXPECT_EQ(arrivals.workers[2].last, 1u);
  EXPECT_EQ(arrivals.workers[0].waited_ns, 80 * kArrivalMs);
  EXPECT_EQ(arrivals.workers[1].waited_ns, 50 * kArrivalMs);
  job.types[0].rooted = true;
  EXPECT_FALSE(LastArrivals(job, job.steps[0])[0]->decided());
}

// Regression: the time since 1970 counted as a wait.
TEST(ComputeArrivals, WaitsAreKnownOnlyOnACommonClock) {
  Job job = ThreeArrive(1, 1);
  job.workers[2].on_common_clock = false;
  auto last = LastArrivals(job, job.steps[0])[0];
  ASSERT_TRUE(last);
  EXPECT_EQ(last->last, 1u) << "the last of those that can be compared";
  EXPECT_EQ(last->waited_ns, 30);
  EXPECT_EQ(last->members, 3u);
  EXPECT_FALSE(last->decided());
  Arrivals arrivals = ComputeArrivals(job);
  EXPECT_THAT(arrivals.waited_ns, testing::ElementsAre(testing::ElementsAre(30, 0, 0)));
  EXPECT_EQ(arrivals.calls[0].waited_ns, 30);
  EXPECT_EQ(arrivals.calls[0].undecided, 1u);
  job.workers[1].on_common_clock = job.workers[0].on_common_clock = false;
  last = LastArrivals(job, job.steps[0])[0];
  ASSERT_TRUE(last);
  EXPECT_FALSE(last->decided());
  arrivals = ComputeArrivals(job);
  EXPECT_THAT(arrivals.waited_ns, testing::ElementsAre(testing::ElementsAre(0, 0, 0)));
  EXPECT_EQ(arrivals.calls[0].undecided, 1u);
}

// Regression: a call of 31 us was told to have waited for 40 ms.
TEST(ComputeArrivals, NobodyWaitsLongerThanTheCallTakes) {
  Job job = ThreeArrive(1, 1);
  job.workers[0].clock_error_ns.reset();
  job.steps[0].operations[0].end_ns = 25;  // It began at 10, and the last at 60.
  EXPECT_EQ(LastArrivals(job, job.steps[0])[0]->waited_ns, 15 + 20);
  const Arrivals arrivals = ComputeArrivals(job);
  EXPECT_THAT(arrivals.waited_ns, testing::ElementsAre(testing::ElementsAre(15, 20, 0)));
  EXPECT_EQ(arrivals.calls[0].waited_ns, 35);
  job.steps[0].operations[0].end_ns = 5;  // A hostile trace's.
  EXPECT_EQ(LastArrivals(job, job.steps[0])[0]->waited_ns, 20);
}

// Against sums of the test's own, for calls of any times.
TEST(ComputeArrivals, WaitsAreThoseOfASumByHand) {
  std::mt19937_64 random(12);
  for (int round = 0; round < 200; ++round) {
    Job job = ThreeArrive(1, 1);
    job.types[0].rooted = round % 2 == 0;
    std::int64_t last = 0, all = 0;
    for (Operation& operation : job.steps[0].operations) {
      operation.begin_ns = static_cast<std::int64_t>(random() % 100);
      operation.end_ns = operation.begin_ns + static_cast<std::int64_t>(random() % 60);
      last = std::max(last, operation.begin_ns);
    }
    std::vector<std::int64_t> waits;
    for (const Operation& operation : job.steps[0].operations) {
      std::int64_t wait = std::min(last, operation.end_ns) - operation.begin_ns;
      if (job.types[0].rooted && operation.end_ns <= last) wait = 0;
      waits.push_back(wait);
      all += wait;
      ASSERT_LE(wait, operation.end_ns - operation.begin_ns);
    }
    const Arrivals arrivals = ComputeArrivals(job);
    EXPECT_THAT(arrivals.waited_ns, testing::ElementsAre(testing::ElementsAreArray(waits)));
    EXPECT_EQ(arrivals.calls[0].waited_ns, all);
  }
}

TEST(ComputeArrivals, TheRootOfABroadcastWaitsForNobody) {
  Job job = ThreeArrive(1, 1);
  job.types = {{.name = "broadcast", .communication = true, .rooted = true}};
  job.steps[0].operations[0].end_ns = 30;  // It has sent all before the last one comes at 60.
  EXPECT_THAT(ComputeArrivals(job).waited_ns, testing::ElementsAre(testing::ElementsAre(0, 20, 0)));
}

TEST(ComputeArrivals, CallsOfWhichItIsKnownWhoWasLastAreCounted) {
  EXPECT_EQ(ComputeArrivals(ThreeArrive(1, 1)).workers[1].decided, 1u);
  EXPECT_EQ(ComputeArrivals(ThreeArrive(std::nullopt, 1)).workers[1].decided, 0u);
}

}  // namespace
}  // namespace strobe::report
