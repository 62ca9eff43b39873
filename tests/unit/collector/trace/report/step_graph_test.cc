#include "collector/trace/report/step_graph.h"

#include <gmock/gmock.h>

#include "absl/status/status.h"

namespace strobe::report {
namespace {

using testing::ElementsAre;

// Two workers work for 3 and 5, meet in a collective that takes 2, and work for 4 and 1.
Job TwoWhoMeet(std::optional<std::int64_t> clock_error) {
  Job job;
  job.types = {{"work", false}, {"all-reduce", true}};
  job.workers.resize(2);
  for (JobWorker& worker : job.workers) worker.clock_error_ns = clock_error;
  JobStep& step = job.steps.emplace_back();
  step.collectives.resize(1);
  const std::uint32_t two = 2, three = 3;
  step.Add({.begin_ns = 7, .end_ns = 11, .worker = 0}, std::span(&two, 1));
  step.Add({.begin_ns = 8, .end_ns = 9, .worker = 1}, std::span(&three, 1));
  const std::uint32_t four = 4, five = 5;
  step.Add({.begin_ns = 3, .end_ns = 7, .worker = 0, .type = 1, .collective = 0},
           std::span(&four, 1));
  step.Add({.begin_ns = 5, .end_ns = 8, .worker = 1, .type = 1, .collective = 0},
           std::span(&five, 1));
  step.Add({.begin_ns = 0, .end_ns = 3, .worker = 0}, {});
  step.Add({.begin_ns = 0, .end_ns = 5, .worker = 1}, {});
  return job;
}

TEST(StepGraph, ACollectiveBeginsWithTheLastMember) {
  const Job job = TwoWhoMeet(0);
  const auto graph = StepGraph::Make(job.steps[0]);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(OwnDurations(job, job.steps[0]), ElementsAre(4, 1, 2, 3, 3, 5));
  std::vector<std::int64_t> ends(6);
  EXPECT_EQ(graph->Replay(OwnDurations(job, job.steps[0]), ends), 11);
  EXPECT_THAT(ends, ElementsAre(11, 9, 7, 8, 3, 5));
  EXPECT_EQ(graph->Replay(std::vector<std::int64_t>{4, 1, 2, 2, 3, 3}, ends), 9)
      << "the second worker works for 3 as the first does";
}

TEST(StepGraph, ClocksWithErrorsDoNotChangeTransfers) {
  Job job = TwoWhoMeet(100);
  EXPECT_THAT(OwnDurations(job, job.steps[0]), ElementsAre(4, 1, 3, 3, 3, 5))
      << "the second was last and needed 3 by its own clock";
  for (Operation& operation : job.steps[0].operations) {
    if (operation.worker == 1) operation.begin_ns += 1000, operation.end_ns += 1000;
  }
  EXPECT_THAT(OwnDurations(job, job.steps[0]), ElementsAre(4, 1, 3, 3, 3, 5));
}

TEST(StepGraph, RefusesACircle) {
  JobStep step;
  const std::uint32_t first = 0, second = 1;
  step.Add({}, std::span(&second, 1));
  step.Add({}, std::span(&first, 1));
  EXPECT_EQ(StepGraph::Make(step).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace strobe::report
