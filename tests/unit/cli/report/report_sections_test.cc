#include "cli/report/report_sections.h"

#include <gmock/gmock.h>

#include "tests/fakes/synthetic_run.h"

namespace strobe::cli {
namespace {

using testing::ElementsAre;

TEST(EngineSections, HasARowForEachBatchSizeAndReason) {
  digest::Digest digest{.names = {"engine"}};
  const auto run = [&](std::int64_t begin_ms, std::int64_t end_ms, const digest::Batch& batch) {
    digest.steps.push_back({.begin_ns = begin_ms * 1'000'000,
                            .end_ns = end_ms * 1'000'000,
                            .annotation_end_ns = end_ms * 1'000'000,
                            .batch = batch});
  };
  run(0, 10, {.decode_requests = 2, .decode_tokens = 2});
  run(20, 110, {.prefill_requests = 1, .prefill_tokens = 468, .running_before = 0});
  const std::vector<DocumentSection> sections = EngineSections(EngineOf(std::vector{digest}));
  ASSERT_EQ(sections.size(), 2u);
  EXPECT_THAT(sections[0].rows[1],
              ElementsAre("decode", "2 requests", "1", "10ms", "10ms", "10ms", "2", "9.1%"));
  EXPECT_THAT(sections[0].rows[2],
              ElementsAre("prefill", "468 tokens", "1", "90ms", "90ms", "90ms", "468", "82%"));
  EXPECT_THAT(sections[1].rows[1], ElementsAre("no requests", "1", "10ms", "10ms", "9.1%"));
}

TEST(EngineSections, ATrainingJobHasNone) {
  const std::vector<digest::Digest> digests(1);
  EXPECT_THAT(EngineSections(EngineOf(digests)), testing::IsEmpty());
}

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

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

report::RunComparison ComparisonOf(const SyntheticRun& before, const SyntheticRun& after) {
  return report::CompareRuns(report::SummarizeRun(SimulateRun(before)),
                             report::SummarizeRun(SimulateRun(after)));
}

TEST(ComparisonSections, ShowTheStepItsPartsAndTheOperations) {
  const std::string text = RenderText(
      {.sections = ComparisonSections(
           ComparisonOf({.seed = 1}, {.seed = 2, .factors = {{"gemm_large", 1.5}}}), 2)});
  EXPECT_THAT(text, HasSubstr("before: 8 workers, 20 steps of train\n"));
  EXPECT_THAT(text, ContainsRegex("\nall +9[0-9.]+ms +10[0-9.]+ms +\\+[0-9.]+ms +\\+1[0-9.]+% +"
                                  "\\+-[0-9.a-z]+ +longer\n"));
  EXPECT_THAT(text, ContainsRegex("\ncompute .* longer\n"));
  EXPECT_THAT(text, ContainsRegex("\nidle: input .* no change\n"));
  EXPECT_THAT(text, ContainsRegex("48 -> 48 +longer +compute +gemm_large\n"));
  EXPECT_THAT(text, HasSubstr("\n10 more did not, or by less\n"));
}

TEST(ComparisonSections, SayOfHowManyStepsNothingIsDecided) {
  const std::string text = RenderText(
      {.sections = ComparisonSections(ComparisonOf({.steps = 3}, {.seed = 2, .steps = 4}), 0)});
  EXPECT_THAT(text, ContainsRegex("\nall .* not decidable \\(n = 3, 4\\)\n"));
  EXPECT_THAT(text, HasSubstr("Not known:\n"));
  EXPECT_THAT(text, Not(HasSubstr("OPERATION")));
}

TEST(ComparisonSections, WithoutStepsShowASecondOfRecording) {
  std::vector<digest::Digest> digests = SimulateRun({.seed = 3});
  for (digest::Digest& digest : digests) digest.steps.clear();
  const report::RunSummary summary = report::SummarizeRun(digests);
  const std::string text =
      RenderText({.sections = ComparisonSections(report::CompareRuns(summary, summary), 3)});
  EXPECT_THAT(text, HasSubstr("A SECOND"));
  EXPECT_THAT(text, HasSubstr("before: 8 workers, no steps\n"));
  EXPECT_THAT(text, Not(ContainsRegex("\nall ")));
}

}  // namespace
}  // namespace strobe::cli
