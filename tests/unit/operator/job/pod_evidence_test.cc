#include "operator/job/pod_evidence.h"

#include <gmock/gmock.h>

namespace strobe::job {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class PodEvidenceTest : public testing::Test {
 protected:
  PodEvidenceTest() {
    target_.name = target_.pod = pod_.name = "a";
    target_.pod_uid = pod_.uid = "u1";
    pod_.phase = "Running";
    pod_.states.push_back({.name = "trainer"});
  }
  std::string Evidence() { return PodEvidence(target_, &pod_, began_); }

  const WallTime began_ = FromUnixNanos(1'700'000'000'700'000'000);
  capture::Target target_;
  PodInfo pod_;
};

TEST_F(PodEvidenceTest, APodThatIsWellSaysNothing) { EXPECT_EQ(Evidence(), ""); }

TEST_F(PodEvidenceTest, TellsOfATrainerThatRanOutOfMemory) {
  pod_.states[0].end_reason = "OOMKilled";
  pod_.states[0].exit_code = 137;
  pod_.states[0].restarts = 2;
  pod_.states[0].ended_at = std::chrono::floor<std::chrono::seconds>(began_);
  EXPECT_EQ(Evidence(),
            "container trainer was OOMKilled (exit code 137) at 2023-11-14T22:13:20Z, restarted 2 "
            "times");
}

TEST_F(PodEvidenceTest, WhatHappenedBeforeExplainsNothing) {
  pod_.states[0].end_reason = "Error";
  pod_.states[0].ended_at = began_ - 5s;
  EXPECT_EQ(Evidence(), "");
}

TEST_F(PodEvidenceTest, TellsWhyAContainerDoesNotRun) {
  pod_.states[0].waiting = "CrashLoopBackOff";
  EXPECT_EQ(Evidence(), "container trainer does not run: CrashLoopBackOff");
}

TEST_F(PodEvidenceTest, TellsOfThePodsOwnEnd) {
  pod_.terminating = true;
  pod_.reason = "Evicted";
  pod_.phase = "Failed";
  EXPECT_EQ(Evidence(), "the pod is being deleted; the pod was ended: Evicted; the pod is Failed");
  EXPECT_EQ(PodEvidence(target_, nullptr, began_), "the pod is gone");
  pod_.uid = "u2";
  EXPECT_THAT(Evidence(), HasSubstr("replaced"));
}

TEST_F(PodEvidenceTest, OnlyWhatAPodCanExplainAsksForIt) {
  EXPECT_TRUE(Describe(Outcome::kWorkerLost).pod_may_explain);
  EXPECT_FALSE(Describe(Outcome::kOk).pod_may_explain);
  EXPECT_FALSE(Describe(Outcome::kUploadDenied).pod_may_explain);
}

using testing::StartsWith;

capture::Target WorkerTarget(std::string name, std::optional<Outcome> outcome = {},
                             std::string message = "") {
  capture::Target target;
  target.name = std::move(name);
  target.outcome = outcome;
  target.message = std::move(message);
  return target;
}

TEST(WhyPending, NoPodsAtAll) {
  Selection selection;
  selection.not_known = "the job does not say it";
  EXPECT_EQ(WhyPending(selection).reason, "NoTargets");
  EXPECT_EQ(WhyPending(selection).message, "no pod matches the target");
  selection.job = "Job/nope";
  selection.not_known = "there is no Job ml/nope, or its API is not installed";
  EXPECT_EQ(WhyPending(selection).message,
            "no pod matches the target; there is no Job ml/nope, or its API is not installed");
  selection.not_known = "";
  selection.expected = 4;
  EXPECT_THAT(WhyPending(selection).message, HasSubstr("0/4"));
}

TEST(WhyPending, ASuspendedJobComesFirst) {
  Selection selection;
  selection.suspended = true;
  EXPECT_EQ(WhyPending(selection).reason, "JobSuspended");
}

TEST(WhyPending, NamesTheFirstWorkerThatIsMissing) {
  Selection selection;
  selection.expected = 2;
  selection.present = 1;
  selection.targets = {WorkerTarget("w0"),
                       WorkerTarget("(rank 1)", Outcome::kWorkerMissing, "no pod")};
  EXPECT_EQ(WhyPending(selection).reason, "WaitingForPods");
  EXPECT_THAT(WhyPending(selection).message, HasSubstr("(rank 1): no pod"));
}

TEST(WhyPending, TheOutcomeIsTheReasonWhenNoneCanTakePart) {
  Selection selection;
  selection.present = 1;
  selection.targets = {WorkerTarget("w0", Outcome::kSidecarMissing, "it has no sidecar")};
  EXPECT_EQ(WhyPending(selection).reason, "SidecarMissing");
  EXPECT_THAT(WhyPending(selection).message,
              StartsWith("none of 1 pods can take part; w0: it has no sidecar. "));
}

}  // namespace

}  // namespace strobe::job
