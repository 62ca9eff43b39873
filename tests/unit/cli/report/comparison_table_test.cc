#include "cli/report/comparison_table.h"

#include <gmock/gmock.h>

#include "tests/fakes/synthetic_run.h"

namespace strobe::cli {
namespace {

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
