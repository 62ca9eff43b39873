#include "cli/report/report_pages.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <utility>

#include "cli/report/report_document.h"
#include "cli/report/report_pictures.h"
#include "collector/trace/report/digest_operations.h"
#include "common/base/strings.h"
#include "tests/fakes/synthetic_job.h"
#include "tests/fakes/synthetic_run.h"

namespace strobe::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr PageOptions kPictures{.pictures = true};

std::string HtmlOf(const std::vector<digest::Digest>& digests) {
  report::DigestMerger merger;
  for (const digest::Digest& digest : digests) merger.Add(digest);
  const report::Job job = merger.Finish();
  return RenderHtml(RunPage("run", digests, job, report::FindStragglers(job), kPictures));
}

std::size_t Occurrences(std::string_view text, std::string_view word) {
  std::size_t count = 0;
  for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++count;
  return count;
}

std::vector<digest::Digest> Slowed(std::size_t workers, std::size_t steps) {
  return Simulate({.workers = workers,
                   .steps = steps,
                   .slowed = {{.worker = std::min<std::size_t>(3, workers - 1),
                               .cause = report::Cause::kInput,
                               .ms = 20}}})
      .digests;
}

TEST(RunPage, DrawsBarsStepsAndWaitsAndMarksTheStraggler) {
  const std::string html = HtmlOf(Slowed(8, 20));
  EXPECT_THAT(html, HasSubstr("<p class=\"headline\">rank 3 holds up 7 others"));
  EXPECT_EQ(Occurrences(html, "<svg"), 3u);
  EXPECT_THAT(html, HasSubstr("class=\"label marked\"><title>worker-3</title>"));
  EXPECT_GE(Occurrences(html, "class=\"bar mark\""), 18u) << "of 19 steps";
  EXPECT_THAT(html, HasSubstr("class=\"w5\"")) << "somebody waited long";
  EXPECT_THAT(html, HasSubstr("class=\"p3\"")) << "input has a colour";
}

TEST(RunPage, APageOfManyWorkersStaysSmall) {
  const std::string html = HtmlOf(Slowed(300, 30));
  EXPECT_THAT(html, HasSubstr("236 more workers, which take no longer, are not shown"));
  EXPECT_EQ(Occurrences(html, "<bdi>worker-"), kMaxDrawnWorkers);
  EXPECT_THAT(html, HasSubstr("<bdi>worker-3</bdi>")) << "the straggler is among them";
  EXPECT_LT(html.size(), 1'000'000u);
}

TEST(RunPage, OneWorkerWithoutStepsHasNoEmptyPictures) {
  std::vector<digest::Digest> digests = Slowed(1, 5);
  digests[0].steps.clear();
  digests[0].knows.device = false;
  const std::string html = HtmlOf(digests);
  EXPECT_THAT(html, Not(HasSubstr("<svg")));
  EXPECT_THAT(html, Not(HasSubstr("<h2>Steps</h2>")));
  EXPECT_THAT(html, Not(HasSubstr("<h2>Who waited</h2>")));
}

TEST(RunPage, HostileNamesInPicturesAreText) {
  std::vector<digest::Digest> digests = Slowed(4, 10);
  for (digest::Digest& digest : digests) {
    digest.worker = "</title><script>x</script>\"" + digest.worker;
    digest.rank.reset();
  }
  const std::string html = HtmlOf(digests);
  EXPECT_EQ(Occurrences(html, "<script"), 0u);
  EXPECT_GE(Occurrences(html, "&lt;/title&gt;&lt;script&gt;"), 8u);
}

TEST(ComparisonPage, DrawsBothRunsAndWhatChanged) {
  const auto summary = [](const SyntheticRun& run) {
    return report::SummarizeRun(SimulateRun(run));
  };
  const report::RunComparison comparison = report::CompareRuns(
      summary({.seed = 1}), summary({.seed = 2, .factors = {{"gemm_large", 1.5}}}));
  const std::string html =
      RenderHtml(ComparisonPage({.location = "old", .headline = "a"},
                                {.location = "new", .headline = "b"}, comparison, kPictures));
  EXPECT_THAT(html, HasSubstr("<h1>old -&gt; new</h1>"));
  EXPECT_EQ(Occurrences(html, "<svg"), 4u) << "bars, steps before and after, operations";
  EXPECT_THAT(html, HasSubstr("class=\"more\""));
  EXPECT_THAT(html, HasSubstr("<p>before: a</p>\n<p>after: b</p>"));
}

using testing::ElementsAre;

report::Job JobOfThree() {
  report::Job job;
  job.steps.emplace_back();
  for (std::uint32_t i = 0; i < 3; ++i) {
    job.workers.push_back({.name = StrCat("w", i)});
    job.steps[0].workers.push_back({.worker = i, .end_ns = 100, .own_ns = {(i + 1) * 10}});
  }
  return job;
}

TEST(ShownWorkers, AreThoseWithTheMostTimeOfTheirOwn) {
  EXPECT_THAT(ShownWorkers(JobOfThree(), {}, 2), ElementsAre(1, 2));
  EXPECT_THAT(ShownWorkers(JobOfThree(), {}, 3), ElementsAre(0, 1, 2));
  EXPECT_THAT(ShownWorkers({}, {}, 3), ElementsAre());
}

TEST(ShownWorkers, AreOrderedByRank) {
  report::Job job = JobOfThree();
  job.workers[0].rank = 10;
  job.workers[1].rank = 2;
  EXPECT_THAT(ShownWorkers(job, {}, 3), ElementsAre(1, 0, 2));
}

TEST(ShownWorkers, LateOnesAreAmongThem) {
  report::StragglerReport report;
  report.stragglers.push_back({.late = {.who = 0}});
  EXPECT_THAT(ShownWorkers(JobOfThree(), report, 2), ElementsAre(0, 2));
}

using testing::StartsWith;

DigestsByRole PrefillAndDecode() {
  const SyntheticJob prefill{.workers = 8};
  SyntheticJob decode = prefill;
  decode.slowed = {{.worker = 3, .cause = report::Cause::kInput, .ms = 20}};
  std::vector<digest::Digest> all;
  for (const SyntheticJob* job : {&prefill, &std::as_const(decode)}) {
    SimulatedJob simulated = Simulate(*job);
    for (digest::Digest& digest : simulated.digests) {
      digest.role = job == &prefill ? "prefill" : "decode";
      all.push_back(std::move(digest));
    }
  }
  return DivideByRole(std::move(all));
}

TEST(DivideByRole, KeepsTheOrderWithinARole) {
  const DigestsByRole roles = PrefillAndDecode();
  ASSERT_EQ(roles.size(), 2u);
  EXPECT_EQ(roles.begin()->first, "decode");
  EXPECT_EQ(roles.at("prefill")[7].worker, "worker-7");
}

TEST(RolesPage, HasASectionForEachRole) {
  const ReportDocument page = RolesPage("run", PrefillAndDecode(), {});
  EXPECT_THAT(page.headline, StartsWith("decode: rank 3 holds up 7 others by "));
  EXPECT_THAT(page.headline, HasSubstr("; prefill: "));
  const std::string text = RenderText(page);
  EXPECT_THAT(text, HasSubstr("\nprefill: no straggler"));
  EXPECT_EQ(page.sections.front().heading, "decode");
}

TEST(RoleStragglersJson, TellsTheStragglersOfEachRole) {
  const auto json = RoleStragglersJson(PrefillAndDecode());
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[0]["role"], "decode");
  EXPECT_EQ(json[0]["stragglers"]["stragglers"].size(), 1u);
  EXPECT_EQ(json[1]["stragglers"]["stragglers"].size(), 0u);
}

}  // namespace
}  // namespace strobe::cli
