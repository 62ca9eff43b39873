#include "cli/kube/request_view.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "common/protocol/outcome.h"

namespace strobe::cluster {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

const WallTime kNow{1000s};

objects::ProfileRequest Viewed(kube::ConditionStatus status, const std::string& reason,
                               const std::string& message) {
  objects::ProfileRequest request;
  request.name = "look";
  request.ns = "team";
  request.created = kNow - 90s;
  request.status.conditions = {{"Succeeded", status, reason, message, 1, kNow}};
  return request;
}

TEST(ProgressText, SaysWhatTheCaptureDoes) {
  EXPECT_THAT(ProgressText(objects::ProfileRequest{}, kNow), HasSubstr("has not processed"));
  objects::ProfileRequest request =
      Viewed(kube::ConditionStatus::kUnknown, "Armed", "attempt 1 of 3");
  request.status.attempt = 1;
  request.status.armed = request.status.matched = 2;
  request.status.start_time = kNow + 3s;
  EXPECT_EQ(ProgressText(request, kNow), "Armed: attempt 1 of 3; 2/2 workers armed, starts in 3s");
  request.status.retry_time = kNow + 4s;
  EXPECT_THAT(ProgressText(request, kNow), HasSubstr("again in 4s"));
  EXPECT_EQ(ProgressText(Viewed(kube::ConditionStatus::kTrue, "AllWorkersOk", ""), kNow), "");
}

TEST(ProgressText, TellsWhatEachWorkerDoes) {
  objects::ProfileRequest request =
      Viewed(kube::ConditionStatus::kUnknown, "Collecting", "attempt 1 of 1");
  request.status.attempt = 1;
  request.status.armed = request.status.matched = 13;
  request.status.progress = {{"WorkerLost", 1, {"llm-2"}},
                             {"Uploading", 2, {"llm-0", "llm-1"}},
                             {"Ok", 10, {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}}};
  const std::string states =
      "  WorkerLost (1): llm-2\n  Uploading (2): llm-0, llm-1\n"
      "  Ok (10): a, b, c, d, e, f, g, h and 2 more";
  EXPECT_EQ(ProgressText(request, kNow),
            "Collecting: attempt 1 of 1; 13/13 workers armed\n" + states);
  EXPECT_EQ(ResultText(request, kNow), "Collecting: attempt 1 of 1; 13/13 workers armed");
  EXPECT_EQ(VerdictText(request), states + "\n") << "its run and its counts are not final";
}

TEST(VerdictText, NamesCausesWithTheRemediesOfTheTable) {
  objects::ProfileRequest request =
      Viewed(kube::ConditionStatus::kFalse, "NoSource", "1 of 20 workers Ok");
  request.status.attempt = 1;
  request.status.ok = 1;
  request.status.matched = 20;
  request.status.outcomes = {{"llm-3", "NoSource", "nothing is listening", "2ms"}};
  request.status.causes = {{"NoSource", 18}, {"OfALaterVersion", 1}};
  request.status.skew = "12us";
  request.status.skew_error = "3us";
  request.status.run = "gs://b/plugins/profile/r";
  const std::string text = VerdictText(request);
  EXPECT_THAT(text, HasSubstr("1 of 20 workers Ok\n"));
  EXPECT_THAT(text, HasSubstr("  llm-3: NoSource: nothing is listening (lateness 2ms)\n"));
  EXPECT_THAT(text, HasSubstr("  and 18 more workers"));
  EXPECT_THAT(text, HasSubstr("NoSource (18 workers): " +
                              std::string(Describe(Outcome::kNoSource).remedy)));
  EXPECT_THAT(text, HasSubstr("skew: 12us +-3us\n"));
  EXPECT_THAT(text, HasSubstr("open it: strobe view gs://b/plugins/profile/r\n"));
  EXPECT_FALSE(Succeeded(request));
}

TEST(RequestRows, TheNewestIsFirst) {
  objects::ProfileRequest old = Viewed(kube::ConditionStatus::kTrue, "AllWorkersOk", "");
  old.name = "old";
  old.created = kNow - 50h;
  old.status.attempt = 1;
  old.status.ok = old.status.matched = 3;
  old.status.bytes = 2 << 20;
  const auto rows =
      RequestRows({old, Viewed(kube::ConditionStatus::kUnknown, "Recording", "")}, true, kNow);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_THAT(rows[1], ElementsAre("team", "look", "Recording", "-", "-", "-", "90s", "-"));
  EXPECT_THAT(rows[2],
              ElementsAre("team", "old", "AllWorkersOk", "3/3", "-", testing::_, "2d", "-"));
  EXPECT_EQ(AgeText(4min), "4m");
  EXPECT_EQ(AgeText(-5s), "0s");
}

TEST(RunAfterDeletion, FollowsTheReclaimPolicy) {
  objects::ProfileRequest request = Viewed(kube::ConditionStatus::kTrue, "AllWorkersOk", "");
  EXPECT_EQ(RunAfterDeletion(request), "");
  request.status.run = "/logs/plugins/profile/r";
  EXPECT_THAT(RunAfterDeletion(request), HasSubstr("is kept"));
  request.reclaim = true;
  EXPECT_THAT(RunAfterDeletion(request), HasSubstr("is deleted with it"));
}

TEST(StallText, HasTheVerdictWithWhatItIsBasedOn) {
  objects::ProfileRequest request = Viewed(kube::ConditionStatus::kTrue, "AllWorkersOk", "");
  EXPECT_FALSE(HasVerdict(request));
  request.status.run = "gs://b/plugins/profile/why";
  request.status.stall.kind = "Host";
  request.status.stall.confidence = "Firm";
  request.status.stall.verdict = "rank 9 holds up 15 others";
  request.status.stall.details = {"Firm: stacks of 16."};
  request.status.stall.culprits = {{.rank = 9, .pod = "llm-9"}};
  request.status.conditions.push_back(
      {"Stalled", kube::ConditionStatus::kTrue, "Host", "rank 9 holds up 15 others", 1, kNow});
  EXPECT_TRUE(HasVerdict(request));
  EXPECT_EQ(StallText(request),
            "rank 9 holds up 15 others\nFirm: stacks of 16.\n"
            "evidence: gs://b/plugins/profile/why\n");
  request.status.conditions.back().message = "the job moves again; the verdict is withdrawn";
  EXPECT_THAT(StallText(request), HasSubstr("\nthe job moves again; the verdict is withdrawn\n"));
  const auto object = nlohmann::json::parse(StallJson(request));
  EXPECT_EQ(object["class"], "Host");
  EXPECT_EQ(object["culprits"][0]["pod"], "llm-9");
  EXPECT_EQ(object["request"], "look");
}

}  // namespace
}  // namespace strobe::cluster
