#include "collector/trace/report/call_durations.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

namespace strobe::report {
namespace {

constexpr std::int64_t kCallMs = 1'000'000;

// One step with a call for each list of durations, in ms; worker i is the i-th member of each.
Job JobOfCalls(const std::vector<std::vector<std::int64_t>>& calls_ms) {
  Job job;
  job.types = {{"all-reduce", true}, {.name = "broadcast", .communication = true, .rooted = true}};
  JobStep& step = job.steps.emplace_back();
  step.collectives.resize(calls_ms.size());
  for (std::uint32_t call = 0; call < calls_ms.size(); ++call) {
    job.workers.resize(std::max(job.workers.size(), calls_ms[call].size()));
    for (std::uint32_t worker = 0; worker < calls_ms[call].size(); ++worker)
      // Clocks of different workers have nothing in common.
      step.Add({.begin_ns = worker * 777 * kCallMs,
                .end_ns = (worker * 777 + calls_ms[call][worker]) * kCallMs,
                .worker = worker,
                .collective = call},
               {});
  }
  return job;
}

TEST(DurationsOfCalls, TheOneWhoIsInItForTheShortestTimeCameLast) {
  const Job job = JobOfCalls({{43, 3, 44}, {10, 9, 11}, {5}});
  const auto calls = DurationsOfCalls(job, job.steps[0]);
  EXPECT_TRUE(calls[0].decided());
  EXPECT_EQ(calls[0].shortest, 1u);
  EXPECT_EQ(calls[0].shortest_ns, 3 * kCallMs);
  EXPECT_EQ(calls[0].second_ns, 43 * kCallMs);
  EXPECT_FALSE(calls[1].decided()) << "the ends of a call differ as much";
  EXPECT_FALSE(calls[2].decided()) << "it has one member";
}

TEST(DurationsOfCalls, TellNothingOfRootedCalls) {
  Job job = JobOfCalls({{43, 3}});
  job.steps[0].operations[0].type = job.steps[0].operations[1].type = 1;
  EXPECT_FALSE(DurationsOfCalls(job, job.steps[0])[0].decided());
  EXPECT_THAT(ShorterInCalls(job), testing::Each(testing::IsEmpty()));
}

// Against the definition: the median of the others, sorted for each member.
TEST(ShorterInCalls, IsTheDistanceFromTheMedianOfTheOthers) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 100; ++round) {
    std::vector<std::vector<std::int64_t>> calls(1 + random() % 3);
    for (auto& call : calls) {
      call.resize(2 + random() % 5);
      for (std::int64_t& ms : call) ms = static_cast<std::int64_t>(random() % 9);
    }
    const Job job = JobOfCalls(calls);
    const auto shorter = ShorterInCalls(job);
    for (std::size_t worker = 0; worker < job.workers.size(); ++worker) {
      double expected = 0;
      bool any = false;
      for (const auto& call : calls) {
        if (worker >= call.size()) continue;
        std::vector<std::int64_t> others = call;
        others.erase(others.begin() + static_cast<std::ptrdiff_t>(worker));
        std::sort(others.begin(), others.end());
        const std::size_t n = others.size();
        const auto sum = static_cast<double>(others[(n - 1) / 2] + others[n / 2]);
        expected += (sum / 2 - static_cast<double>(call[worker])) * static_cast<double>(kCallMs);
        any = true;
      }
      ASSERT_EQ(shorter[worker].size(), any ? 1u : 0u);
      if (any) {
        EXPECT_NEAR(shorter[worker][0], expected, 1e-3);
      }
    }
  }
}

}  // namespace
}  // namespace strobe::report
