#include "operator/admission/creator_review.h"

#include <gmock/gmock.h>

#include "operator/base/names.h"
#include "operator/base/requester_json.h"

namespace strobe::admission {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::IsEmpty;

class JudgeOfSchedules final : public access::Gatekeeper {
 public:
  absl::StatusOr<policy::Verdict> Judge(const objects::ProfileRequest& request,
                                        const kube::Requester& requester,
                                        const policy::EarlierCaptures&, Nanos within) override {
    EXPECT_LE(within, 2s);
    asked.push_back(requester.username + " " + request.capture.logdir);
    return verdict;
  }
  std::optional<policy::Verdict> JudgeFromCache(const objects::ProfileRequest&,
                                                const policy::EarlierCaptures&) override {
    return {};
  }
  absl::StatusOr<std::string> WhyNotAdmitted(const objects::ProfileRequest&) override { return ""; }
  absl::StatusOr<std::string> LogdirFor(const std::string&, Nanos) override { return logdir; }
  absl::StatusOr<std::string> WhyNoMore(kube::CreatorKind, const std::string&, Nanos) override {
    return full;
  }
  void CaptureEnded(const std::string&, WallTime) override {}

  absl::StatusOr<std::string> full = std::string();
  absl::StatusOr<policy::Verdict> verdict = policy::Verdict{};
  absl::StatusOr<std::string> logdir = std::string("/default");
  std::vector<std::string> asked;
};

AdmissionRequest ScheduleReview(const char* patch = "{}", const char* former = nullptr) {
  const auto object = [](const char* text) {
    nlohmann::json made = nlohmann::json::parse(R"({
      "metadata": {"name": "s", "uid": "u"},
      "spec": {"schedule": "@hourly", "template": {"spec": {"target": {"pods": ["a"]}, "logdir": "/logs"}}}})");
    made.merge_patch(nlohmann::json::parse(text));
    return made;
  };
  AdmissionRequest request;
  request.operation = former == nullptr ? "CREATE" : "UPDATE";
  request.ns = "ml";
  request.user = {{"username", "jane"}};
  request.object = object(patch);
  if (former != nullptr) request.old_object = object(former);
  return request;
}

// The annotation after the answer's patch, as its content.
nlohmann::json StampAfter(const AdmissionRequest& request) {
  const Answer answer = StampCreator(kube::CreatorKind::kSchedule, request, {"key"}, WallTime{1s});
  EXPECT_TRUE(answer.allowed);
  const nlohmann::json object = request.object.patch(answer.patch);
  const nlohmann::json annotations =
      object["metadata"].value("annotations", nlohmann::json::object());
  return nlohmann::json::parse(annotations.value(kube::kRequesterAnnotation, "null"));
}

TEST(ScheduleReview, WhoeverCreatesAScheduleIsItsRequester) {
  const nlohmann::json stamp = StampAfter(ScheduleReview(
      R"({"metadata": {"annotations": {"strobe.dev/requester": "{\"username\": \"admin\"}"}}})"));
  EXPECT_EQ(stamp["username"], "jane");
  EXPECT_FALSE(stamp.contains("object")) << "there is no UID yet";
  const Answer early =
      StampCreator(kube::CreatorKind::kSchedule, ScheduleReview(), {}, WallTime{1s});
  EXPECT_FALSE(early.allowed);
  EXPECT_EQ(early.code, 500);
}

TEST(ScheduleReview, ANamespaceMayHaveSoMany) {
  JudgeOfSchedules judge;
  judge.full = "it has 200";
  const auto check = [&](const AdmissionRequest& review) {
    return CheckCreator(kube::CreatorKind::kSchedule, review, judge, 4s);
  };
  EXPECT_EQ(check(ScheduleReview()).message, "it has 200");
  EXPECT_TRUE(check(ScheduleReview(R"({"spec": {"schedule": "@daily"}})", "{}")).allowed)
      << "those that exist may be changed";
  judge.full = absl::UnavailableError("away");
  EXPECT_EQ(check(ScheduleReview()).code, 500);
}

TEST(ScheduleReview, ASpecMayBeSoLarge) {
  JudgeOfSchedules judge;
  AdmissionRequest review = ScheduleReview();
  nlohmann::json& pods = review.object["spec"]["template"]["spec"]["target"]["pods"];
  for (int i = 0; i < 1000; ++i) pods.push_back("trainer-" + std::to_string(i));
  EXPECT_TRUE(CheckCreator(kube::CreatorKind::kSchedule, review, judge, 4s).allowed);
  for (int i = 0; i < 1000; ++i) pods.push_back(std::string(60, 'x') + std::to_string(i));
  EXPECT_EQ(CheckCreator(kube::CreatorKind::kSchedule, review, judge, 4s).code, 422);
}

TEST(ScheduleReview, WhoeverChangesWhatItAsksForBecomesItsRequester) {
  const char* kOfAdmin =
      R"({"metadata": {"annotations": {"strobe.dev/requester": "{\"username\": \"admin\"}"}}})";
  const nlohmann::json other =
      StampAfter(ScheduleReview(R"({"spec": {"schedule": "@daily"}})", kOfAdmin));
  EXPECT_EQ(other["username"], "jane");
  EXPECT_EQ(other["object"], "u");
  for (
      const char* same :
      {"{}", R"({"spec": {"suspend": true}})", R"({"spec": {"failedRunsHistoryLimit": 9}})",
       R"({"spec": {"keepFor": "24h"}})",
       R"({"metadata": {"annotations": {"strobe.dev/requester": "{\"username\": \"mallory\"}"}}})"}) {
    EXPECT_EQ(StampAfter(ScheduleReview(same, kOfAdmin))["username"], "admin") << same;
  }
  EXPECT_TRUE(
      StampAfter(
          ScheduleReview(R"({"metadata": {"annotations": {"strobe.dev/requester": "{}"}}})", "{}"))
          .is_null())
      << "what was not there cannot be added";
}

TEST(ScheduleReview, AScheduleThatCannotBeCarriedOutIsRefusedWithItsField) {
  JudgeOfSchedules judge;
  for (const auto& [patch, words] : std::vector<std::pair<const char*, std::string>>{
           {R"({"spec": {"schedule": "0 0 * * 8"}})", "spec.schedule: the day of the week \"8\""},
           {R"({"spec": {"timeZone": "Mars/Base"}})", "spec.timeZone"},
           {R"({"spec": {"template": {"spec": {"logdir": "ftp://x/y"}}}})",
            "spec.template.spec."}}) {
    const Answer answer =
        CheckCreator(kube::CreatorKind::kSchedule, ScheduleReview(patch), judge, 4s);
    EXPECT_FALSE(answer.allowed) << patch;
    EXPECT_EQ(answer.code, 422);
    EXPECT_THAT(answer.message, HasSubstr(words));
  }
  EXPECT_THAT(judge.asked, IsEmpty());
}

TEST(ScheduleReview, TheUserMustBeAllowedToAskForItsRuns) {
  JudgeOfSchedules judge;
  EXPECT_TRUE(CheckCreator(kube::CreatorKind::kSchedule, ScheduleReview(), judge, 4s).allowed);
  EXPECT_EQ(judge.asked.back(), "jane file:///logs");
  EXPECT_TRUE(CheckCreator(kube::CreatorKind::kSchedule,
                           ScheduleReview(R"({"spec": {"template": {"spec": {"logdir": null}}}})"),
                           judge, 4s)
                  .allowed);
  EXPECT_EQ(judge.asked.back(), "jane file:///default");
  judge.verdict = policy::Verdict{policy::Verdict::Kind::kWait, "too many", {}};
  EXPECT_TRUE(CheckCreator(kube::CreatorKind::kSchedule, ScheduleReview(), judge, 4s).allowed)
      << "it will pass until a run is due";
  judge.verdict = policy::Verdict{policy::Verdict::Kind::kRefused, "jane may not", {}};
  EXPECT_EQ(CheckCreator(kube::CreatorKind::kSchedule, ScheduleReview(), judge, 4s).code, 403);
  EXPECT_EQ(CheckCreator(kube::CreatorKind::kSchedule,
                         ScheduleReview(R"({"spec": {"schedule": "@daily"}})", "{}"), judge, 4s)
                .code,
            403);
  EXPECT_TRUE(CheckCreator(kube::CreatorKind::kSchedule,
                           ScheduleReview(R"({"spec": {"suspend": true}})", "{}"), judge, 4s)
                  .allowed);
  judge.verdict = absl::UnavailableError("timeout");
  EXPECT_EQ(CheckCreator(kube::CreatorKind::kSchedule, ScheduleReview(), judge, 4s).code, 500);
  judge.logdir = absl::NotFoundError("no default");
  EXPECT_EQ(CheckCreator(kube::CreatorKind::kSchedule,
                         ScheduleReview(R"({"spec": {"template": {"spec": {"logdir": null}}}})"),
                         judge, 4s)
                .code,
            422);
}

TEST(TriggerReview, WhoeverCreatesOrChangesATriggerMustBeAllowedToAskForItsRuns) {
  const auto review = [](const char* patch, const char* former) {
    AdmissionRequest request;
    request.operation = former == nullptr ? "CREATE" : "UPDATE";
    request.ns = "ml";
    request.user = {{"username", "jane"}};
    const auto object = [](const char* text) {
      nlohmann::json made = nlohmann::json::parse(R"({
        "metadata": {"name": "t", "uid": "u"},
        "spec": {"alerts": {"matchLabels": {"a": "b"}}, "template": {"spec": {"logdir": "/logs"}}}})");
      made.merge_patch(nlohmann::json::parse(text));
      return made;
    };
    request.object = object(patch);
    if (former != nullptr) request.old_object = object(former);
    return request;
  };
  JudgeOfSchedules judge;
  const auto check = [&](const char* patch, const char* former = nullptr) {
    return CheckCreator(kube::CreatorKind::kTrigger, review(patch, former), judge, 4s);
  };
  EXPECT_TRUE(check("{}").allowed);
  EXPECT_EQ(judge.asked.back(), "jane file:///logs");
  const Answer wrong = check(R"({"spec": {"alerts": {"matchLabels": {"a": null}}}})");
  EXPECT_EQ(wrong.code, 422);
  EXPECT_THAT(wrong.message, HasSubstr("spec.alerts.matchLabels"));
  judge.verdict = policy::Verdict{policy::Verdict::Kind::kRefused, "jane may not", {}};
  EXPECT_EQ(check("{}").code, 403);
  EXPECT_EQ(check(R"({"spec": {"budget": {"capturesPerDay": 99}}})", "{}").code, 403);
  EXPECT_TRUE(check(R"({"spec": {"suspend": true}})", "{}").allowed);
  const Answer stamp =
      StampCreator(kube::CreatorKind::kTrigger, review("{}", nullptr), {"key"}, WallTime{1s});
  const nlohmann::json stamped = review("{}", nullptr).object.patch(stamp.patch);
  EXPECT_EQ(
      kube::CreatorRequesterOf(kube::CreatorKind::kTrigger, stamped, "ml")->requester.username,
      "jane");
}

}  // namespace
}  // namespace strobe::admission
