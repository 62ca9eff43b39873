#include "collector/store/catalog/run_search.h"

#include <gmock/gmock.h>

#include "common/base/strings.h"

namespace strobe::catalog {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

EntryRef Run(std::int64_t second, const std::string& request, const std::string& requester = "jane",
             std::vector<Cause> causes = {}) {
  const ManifestFacts facts{.request = request,
                            .job = "PyTorchJob/llm",
                            .requester = requester,
                            .result = causes.empty() ? "Succeeded" : "Failed",
                            .instant_ns = second * 1'000'000'000,
                            .causes = std::move(causes)};
  return std::make_shared<RunEntry>(EntryOf(StrCat("run-", second), {}, facts));
}

// The runs must be given newest first.
LogdirRunsRef Of(const std::string& logdir, std::vector<EntryRef> entries) {
  return std::make_shared<LogdirRuns>(
      LogdirRuns{.logdir = logdir, .entries = std::move(entries), .listed = true});
}

std::vector<std::string> NamesOf(const absl::StatusOr<RunAnswer>& answer) {
  std::vector<std::string> names;
  EXPECT_TRUE(answer.ok()) << answer.status();
  for (const FoundRun& found : answer->runs) names.push_back(found.entry->run);
  return names;
}

const std::vector<LogdirRunsRef> kTwo = {
    Of("gs://a", {Run(9, "ml/nine", "Jane"), Run(5, "ml/five", "joe", {{"WorkerLost", 1}}),
                  Run(3, "ml/three")}),
    Of("gs://b", {Run(8, "web/eight"), Run(4, "web/four"), Run(3, "web/three")})};

TEST(SearchRuns, ShowsTheNewestOfAllLogdirsFirst) {
  EXPECT_THAT(NamesOf(SearchRuns(kTwo, {}, kAllVisible)),
              ElementsAre("run-9", "run-8", "run-5", "run-4", "run-3", "run-3"));
}

TEST(SearchRuns, EachWordMustMatchSomewhere) {
  const auto search = [](const std::string& text) {
    return NamesOf(SearchRuns(kTwo, {.text = text}, kAllVisible));
  };
  EXPECT_THAT(search("WEB"), ElementsAre("run-8", "run-4", "run-3"));
  EXPECT_THAT(search("  jane\tnine "), ElementsAre("run-9"));
  EXPECT_THAT(search("workerlost"), ElementsAre("run-5"));
  EXPECT_THAT(search("failed joe"), ElementsAre("run-5"));
  EXPECT_THAT(search("pytorchjob/llm three"), ElementsAre("run-3", "run-3"));
  EXPECT_THAT(search("webeight"), IsEmpty()) << "no word is found across two fields";
  EXPECT_THAT(search("nobody"), IsEmpty());
}

TEST(SearchRuns, PagesShowEachRunOnce) {
  std::vector<std::string> seen;
  RunQuery query{.limit = 1};
  for (int page = 0; page < 6; ++page) {
    const auto answer = SearchRuns(kTwo, query, kAllVisible);
    ASSERT_TRUE(answer.ok()) << answer.status();
    ASSERT_EQ(answer->runs.size(), 1u);
    seen.push_back(StrCat(answer->runs[0].logdir, " ", answer->runs[0].entry->run));
    query.after = answer->next;
  }
  EXPECT_EQ(query.after, "") << "there are no more";
  EXPECT_THAT(seen, ElementsAre("gs://a run-9", "gs://b run-8", "gs://a run-5", "gs://b run-4",
                                "gs://a run-3", "gs://b run-3"));
}

TEST(SearchRuns, RunsThatTheAskerMayNotSeeHaveNoEffect) {
  const std::vector<LogdirRunsRef> only = {kTwo[1]};
  for (const char* text : {"", "jane", "nine", "workerlost"}) {
    for (const std::size_t limit : {1u, 2u, 100u}) {
      const RunQuery query{.text = text, .limit = limit};
      const auto few = SearchRuns(kTwo, query, {.logdirs = {"gs://b"}});
      const auto alone = SearchRuns(only, query, kAllVisible);
      EXPECT_EQ(NamesOf(few), NamesOf(alone));
      EXPECT_EQ(few->next, alone->next);
      EXPECT_EQ(few->logdirs, alone->logdirs);
    }
  }
  const auto none = SearchRuns(kTwo, {}, {});
  EXPECT_THAT(NamesOf(none), IsEmpty());
  EXPECT_THAT(none->logdirs, IsEmpty());
}

TEST(SearchRuns, RefusesWhatItDidNotTell) {
  for (const char* wrong : {"x", "1", "1/run", "x/run/gs://a", "/"})
    EXPECT_FALSE(SearchRuns(kTwo, {.after = wrong}, kAllVisible).ok()) << wrong;
  EXPECT_FALSE(SearchRuns(kTwo, {.text = std::string(501, 'x')}, kAllVisible).ok());
}

}  // namespace
}  // namespace strobe::catalog
