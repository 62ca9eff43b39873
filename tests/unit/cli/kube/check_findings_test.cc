#include "cli/kube/check_findings.h"

#include <gmock/gmock.h>

#include "common/protocol/outcome.h"

namespace strobe::cluster {
namespace {

using testing::HasSubstr;
using testing::SizeIs;
using FindingLevel = Finding::Level;

TEST(InstallationFinding, NeedsBothResources) {
  EXPECT_EQ(InstallationFinding("profilepolicies.strobe.dev\nprofilerequests.strobe.dev\n").level,
            FindingLevel::kOk);
  const Finding missing = InstallationFinding("profilerequests.strobe.dev\n");
  EXPECT_EQ(missing.level, FindingLevel::kFailed);
  EXPECT_THAT(missing.message, HasSubstr("profilepolicies.strobe.dev"));
}

TEST(AccessFindings, ARightThatIsMissingIsNamed) {
  nlohmann::json reviews = nlohmann::json::array();
  for (const nlohmann::json review : AccessReviews("ml")) {
    reviews.push_back(review);
    reviews.back()["status"]["allowed"] = true;
    EXPECT_EQ(review["spec"]["resourceAttributes"]["namespace"], "ml");
  }
  ASSERT_THAT(AccessFindings(reviews), SizeIs(1));
  EXPECT_TRUE(AllPassed(AccessFindings(reviews)));
  for (nlohmann::json& review : reviews) {
    if (review["spec"]["resourceAttributes"]["verb"] == "patch")
      review["status"]["allowed"] = false;
  }
  ASSERT_THAT(AccessFindings(reviews), SizeIs(1));
  EXPECT_EQ(AccessFindings(reviews)[0].level, FindingLevel::kWarning);
  EXPECT_THAT(AccessFindings(reviews)[0].message, HasSubstr("patch profilerequests"));
  EXPECT_FALSE(AllPassed(AccessFindings(nlohmann::json())));
}

objects::ProfileRequest Answered(kube::ConditionStatus status, const std::string& reason) {
  objects::ProfileRequest request;
  request.status.attempt = 1;
  request.status.matched = 2;
  request.status.conditions = {
      {"Succeeded", status, reason, "1 of 2 workers Ok", 1, WallTime{}},
      {"Accepted", kube::ConditionStatus::kTrue, "Valid", "2 workers", 1, WallTime{}}};
  request.status.preflight = {{"a",
                               "NoSource",
                               "nothing is listening",
                               "0.1.0",
                               "1us",
                               "2us",
                               {"Framework at localhost:1"}},
                              {"b", "Ok", "", "0.1.0", "1us", "2us", {}}};
  return request;
}

TEST(RequestFindings, EachWorkerHasTheRemedyOfItsCause) {
  const auto findings = RequestFindings(Answered(kube::ConditionStatus::kFalse, "NoSource"));
  EXPECT_FALSE(AllPassed(findings));
  const std::string text = FindingsText(findings);
  EXPECT_THAT(text, HasSubstr("failed   worker a: NoSource: nothing is listening; sidecar 0.1.0; "
                              "Framework at localhost:1; clock 1us +-2us\n         " +
                              std::string(Describe(Outcome::kNoSource).remedy)));
  EXPECT_THAT(text, HasSubstr("ok       worker b: sidecar 0.1.0; clock 1us +-2us\n"));
  EXPECT_EQ(nlohmann::json::parse(FindingsJson(findings))["passed"], false);
}

TEST(RequestFindings, EnoughWorkersPass) {
  const auto findings = RequestFindings(Answered(kube::ConditionStatus::kTrue, "EnoughWorkersOk"));
  EXPECT_TRUE(AllPassed(findings));
  EXPECT_THAT(FindingsText(findings), HasSubstr("warning  worker a: NoSource"));
}

TEST(RequestFindings, WhatNoWorkerExplainsIsTold) {
  objects::ProfileRequest request = Answered(kube::ConditionStatus::kFalse, "ClockUncertain");
  request.status.preflight[0].cause = "Ok";
  request.status.preflight[0].message.clear();
  request.status.preflight[1].sidecar = "0.0.9";
  const auto findings = RequestFindings(request);
  EXPECT_FALSE(AllPassed(findings));
  EXPECT_THAT(FindingsText(findings), HasSubstr("failed   capture: ClockUncertain"));
  EXPECT_THAT(FindingsText(findings), HasSubstr("warning  versions: "));
}

TEST(RequestFindings, ARequestThatWasRefusedTellsWhoCanHelp) {
  objects::ProfileRequest request;
  const auto text = [&](const std::string& reason, const std::string& message) {
    request.status.conditions = {
        {"Succeeded", kube::ConditionStatus::kFalse, reason, message, 1, WallTime{}}};
    return FindingsText(RequestFindings(request));
  };
  EXPECT_THAT(text("NotAllowed", "user \"x\" may not profile pods"), HasSubstr("failed   access"));
  EXPECT_THAT(text("NotAllowed", "ProfilePolicy p: too long"), HasSubstr("failed   policy"));
  EXPECT_THAT(text("NotAdmitted", "no webhook"), HasSubstr("failed   admission"));
  EXPECT_THAT(text("NoTargets", "no pods"), HasSubstr("failed   target"));
  EXPECT_THAT(text("NoTargets", "no pods"), HasSubstr("label its pod template, or the namespace,"));
}

TEST(FindingsJson, ReplacesWhatIsNoUtf8) {
  const std::vector<Finding> findings = {{Finding::Level::kFailed, "caf\xe9", "m", "r"}};
  EXPECT_THAT(FindingsJson(findings), HasSubstr("\"subject\": \"caf\uFFFD\""));
}

}  // namespace
}  // namespace strobe::cluster
