#include "cli/report/parallel_table.h"

#include <gmock/gmock.h>

namespace strobe::cli {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

report::WorkerTime WaitsForLaunches(double share) {
  report::WorkerTime time{.has_device = true, .device = "GPU", .busy = 1 - share};
  time.lost[0] = {.measured = true, .share = share, .step = 12};
  return time;
}

TEST(AdviceSections, SaysWhatToDoAndWhere) {
  report::Job job;
  job.workers = {{.name = "w0", .rank = 0, .time = WaitsForLaunches(0.5)},
                 {.name = "w1", .rank = 1, .time = WaitsForLaunches(0.7)}};
  const auto sections = AdviceSections(job);
  ASSERT_EQ(sections.size(), 1u);
  EXPECT_EQ(sections[0].heading, "What to do");
  ASSERT_EQ(sections[0].lines.size(), 1u);
  EXPECT_THAT(sections[0].lines[0],
              testing::StartsWith("60% waiting for launches (most in rank 1, step 12): Launch "));
  EXPECT_THAT(sections[0].lines[0], testing::HasSubstr(" https://"));
  job.workers.pop_back();
  EXPECT_THAT(AdviceSections(job)[0].lines[0],
              testing::StartsWith("50% waiting for launches (most in step 12): "));
  job.workers[0].time = {};
  EXPECT_THAT(AdviceSections(job), IsEmpty());
}

TEST(ParallelSections, TellsGroupsAndStages) {
  report::StragglerReport report;
  EXPECT_THAT(ParallelSections(report), IsEmpty());
  report.groups = {{.kind = report::GroupKind::kAll, .named = true, .communicators = 1}};
  EXPECT_THAT(ParallelSections(report), IsEmpty()) << "a group of all ranks says nothing new";
  report.groups.push_back({.kind = report::GroupKind::kTensor,
                           .communicators = 4,
                           .calls = 70,
                           .in_calls_ns = 2e6,
                           .waited_ns = 1e6});
  report.stages = {{.stage = 0, .workers = 2, .own_ns = 40e6},
                   {.stage = 1, .workers = 2, .own_ns = 70e6}};
  const auto sections = ParallelSections(report);
  ASSERT_EQ(sections.size(), 2u);
  EXPECT_THAT(sections[0].rows[1], ElementsAre("all ranks", "1", "0", "0s", "-"));
  EXPECT_THAT(sections[0].rows[2], ElementsAre("tensor, by its calls", "4", "70", "2ms", "1ms"));
  EXPECT_THAT(sections[1].rows[2], ElementsAre("1", "2", "70ms"));
}

}  // namespace
}  // namespace strobe::cli
