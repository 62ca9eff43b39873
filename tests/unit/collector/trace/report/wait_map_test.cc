#include "collector/trace/report/wait_map.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "collector/trace/report/digest_operations.h"
#include "collector/trace/report/report_json.h"
#include "collector/trace/report/run_report.h"
#include "collector/trace/report/stragglers.h"
#include "tests/fakes/synthetic_job.h"

namespace strobe::report {
namespace {

// In each step all workers but the last arrive at time 0 and the last arrives at 100 + its number.
Job LastArrivesLate(std::size_t workers, std::size_t steps) {
  Job job;
  job.types = {{"all-reduce", true}};
  job.communicators = {{.name = "0"}};
  for (std::uint32_t i = 0; i < workers; ++i)
    job.workers.push_back({.name = "w" + std::to_string(i), .rank = i, .clock_error_ns = 10});
  for (std::size_t number = 0; number < steps; ++number) {
    JobStep& step = job.steps.emplace_back();
    step.number = static_cast<std::int64_t>(number);
    step.collectives.resize(1);
    for (std::uint32_t i = 0; i < workers; ++i) {
      step.workers.push_back({.worker = i});
      const std::int64_t begin = i + 1 < workers ? 0 : 100 + static_cast<std::int64_t>(number);
      step.Add({.begin_ns = begin, .end_ns = 1000, .worker = i, .collective = 0}, {});
    }
  }
  return job;
}

TEST(ComputeWaitMap, TellsWhoWaitedInWhichStepAndHowSureThatIs) {
  Job job = LastArrivesLate(3, 2);
  job.workers[1].clock_error_ns.reset();
  job.steps[1].workers.erase(job.steps[1].workers.begin());  // Worker 0 is not in step 1.
  const WaitMap map = ComputeWaitMap(job, ComputeArrivals(job));
  EXPECT_THAT(map.workers, testing::ElementsAre(0, 1, 2));
  EXPECT_THAT(map.steps, testing::ElementsAre(0, 1));
  ASSERT_TRUE(map.waits[0][0]);
  EXPECT_EQ(map.waits[0][0]->waited_ns, 100);
  EXPECT_EQ(map.waits[0][0]->error_ns, 20) << "its own error and that of the last";
  EXPECT_FALSE(map.waits[0][1]);
  EXPECT_EQ(map.waits[1][1]->waited_ns, 101);
  EXPECT_EQ(map.waits[1][1]->error_ns, std::nullopt) << "its clock is not measured";
  EXPECT_EQ(map.waits[2][0]->waited_ns, 0);
  EXPECT_EQ(map.waits[2][0]->error_ns, 0) << "who arrives last waits for nobody";
}

TEST(ComputeWaitMap, TellsNothingOfWorkersOnNoCommonClock) {
  Job job = LastArrivesLate(3, 1);
  job.workers[2].on_common_clock = false;
  job.workers[2].clock_error_ns.reset();
  const WaitMap map = ComputeWaitMap(job, ComputeArrivals(job));
  EXPECT_FALSE(map.waits[2][0]);
  ASSERT_TRUE(map.waits[0][0] && map.waits[1][0]);
  EXPECT_EQ(map.waits[0][0]->waited_ns, 0);
  EXPECT_EQ(map.waits[1][0]->waited_ns, 0);
}

TEST(ComputeWaitMap, OfALargeJobTheWorkersThatLoseMostAreKept) {
  const Job job = LastArrivesLate(2000, 300);
  const WaitMap map = ComputeWaitMap(job, ComputeArrivals(job));
  EXPECT_EQ(map.workers.size(), kMaxMapWorkers);
  EXPECT_EQ(map.workers_left_out, 2000 - kMaxMapWorkers);
  EXPECT_EQ(map.workers.back(), 1999u) << "everybody waits for it";
  EXPECT_EQ(map.steps.size(), kMaxMapSteps);
  EXPECT_EQ(map.steps.front(), 300 - kMaxMapSteps) << "later steps have longer waits";
  EXPECT_EQ(map.steps_left_out, 300 - kMaxMapSteps);
}

TEST(ComputeWaitMap, WithoutCallsThereIsNone) {
  Job job = LastArrivesLate(2, 1);
  job.steps[0].operations.clear();
  EXPECT_TRUE(ComputeWaitMap(job, ComputeArrivals(job)).workers.empty());
}

// The rows of the map add up to the waits that the report tells of each worker.
TEST(ComputeWaitMap, AgreesWithTheWaitsOfTheReport) {
  DigestMerger merger;
  for (const digest::Digest& digest :
       Simulate({.workers = 4, .slowed = {{.worker = 1, .cause = Cause::kInput, .ms = 20}}})
           .digests)
    merger.Add(digest);
  const Job job = merger.Finish();
  const nlohmann::json told = StragglersToJson(job, FindStragglers(job));
  ASSERT_EQ(told["waitMap"]["workers"].size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    double sum = 0;
    for (const nlohmann::json& wait : told["waitMap"]["waitedNs"][i])
      sum += wait.is_null() ? 0 : wait.get<double>();
    EXPECT_EQ(told["waitMap"]["workers"][i], told["waits"][i]["worker"]);
    EXPECT_EQ(sum, told["waits"][i]["waitedNs"]);
    EXPECT_GT(sum, 0);
  }
}

}  // namespace
}  // namespace strobe::report
