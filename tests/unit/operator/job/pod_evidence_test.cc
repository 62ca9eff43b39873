#include "operator/job/pod_evidence.h"

#include <gmock/gmock.h>

namespace strobe {
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
  Target target_;
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

}  // namespace
}  // namespace strobe
