#include "operator/core/targets.h"

#include <gmock/gmock.h>

namespace strobe {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

PodInfo Pod(const std::string& name, int rank = -1) {
  PodInfo pod;
  pod.name = name;
  pod.ip = "10.0.0.1";
  pod.phase = "Running";
  pod.sidecar_port = 9470;
  pod.container = "trainer";
  if (rank >= 0) pod.labels["batch.kubernetes.io/job-completion-index"] = std::to_string(rank);
  return pod;
}

TEST(SelectTargets, OrdersByRankAndDerivesTheAddress) {
  const auto targets = SelectTargets({}, {}, {Pod("b", 10), Pod("a", 2)});
  ASSERT_THAT(targets, SizeIs(2));
  EXPECT_EQ(targets[0].name, "a");
  EXPECT_EQ(targets[0].address, "10.0.0.1:9470");
  EXPECT_EQ(targets[0].container, "trainer");
}

TEST(SelectTargets, BracketsIpv6) {
  PodInfo pod = Pod("a");
  pod.ip = "fd00::1";
  EXPECT_EQ(SelectTargets({}, {}, {pod})[0].address, "[fd00::1]:9470");
}

TEST(SelectTargets, KeepsPodsThatCannotTakePartAndSaysWhy) {
  PodInfo bare = Pod("bare"), young = Pod("young"), leaving = Pod("leaving");
  bare.sidecar_port = 0;
  young.ip = "";
  young.phase = "Pending";
  leaving.terminating = true;
  const auto targets = SelectTargets({}, {}, {bare, leaving, young});
  EXPECT_EQ(targets[0].outcome, Outcome::kSidecarMissing);
  EXPECT_EQ(targets[1].outcome, Outcome::kUnreachable);
  EXPECT_THAT(targets[2].message, HasSubstr("Pending"));
}

TEST(SelectTargets, LeavesOutPodsThatHaveEndedUnlessNamed) {
  PodInfo ended = Pod("ended");
  ended.phase = "Succeeded";
  EXPECT_THAT(SelectTargets({}, {}, {ended}), SizeIs(0));
  const auto named =
      SelectTargets({}, {.selector = "", .names = {"ended", "gone"}, .owner = {}}, {ended});
  ASSERT_THAT(named, SizeIs(2));
  EXPECT_EQ(named[0].outcome, Outcome::kUnreachable);
  EXPECT_THAT(named[1].message, HasSubstr("no such pod"));
}

TEST(SelectTargets, SamplesByRankOrEvenly) {
  std::vector<PodInfo> pods;
  for (int i = 0; i < 8; ++i) pods.push_back(Pod("p" + std::to_string(i), i));
  TargetSpec spec;
  spec.sample = true;
  spec.count = 2;
  auto targets = SelectTargets(spec, {}, pods);
  ASSERT_THAT(targets, SizeIs(2));
  EXPECT_EQ(targets[0].rank, 0);
  EXPECT_EQ(targets[1].rank, 4);
  spec.count = 0;
  spec.ranks = {7};
  targets = SelectTargets(spec, {}, pods);
  ASSERT_THAT(targets, SizeIs(1));
  EXPECT_EQ(targets[0].name, "p7");
}

TEST(QueryFor, KnowsHowJobsLabelTheirPods) {
  TargetSpec spec;
  spec.job = JobRef{"", "PyTorchJob", "llm"};
  EXPECT_EQ(QueryFor(spec)->selector, "training.kubeflow.org/job-name=llm");
  spec.job->kind = "StatefulSet";
  EXPECT_EQ(QueryFor(spec)->owner->name, "llm");
  spec.job->kind = "Deployment";
  EXPECT_THAT(std::string(QueryFor(spec).status().message()),
              HasSubstr("target.jobRef.kind Deployment"));
}

TEST(SelectTargets, AnOwnerKeepsOnlyItsOwnPods) {
  PodInfo mine = Pod("mine"), other = Pod("other");
  mine.owners = {{"StatefulSet", "llm"}};
  other.owners = {{"StatefulSet", "x"}};
  const auto targets = SelectTargets(
      {}, {.selector = "", .names = {}, .owner = JobRef{"", "StatefulSet", "llm"}}, {mine, other});
  ASSERT_THAT(targets, SizeIs(1));
  EXPECT_EQ(targets[0].name, "mine");
}

TEST(RankOf, ReadsFrameworkVariables) {
  PodInfo pod = Pod("a");
  EXPECT_EQ(RankOf(pod), -1);
  pod.env["RANK"] = "3";
  EXPECT_EQ(RankOf(pod), 3);
  pod.env["RANK"] = "three";
  EXPECT_EQ(RankOf(pod), -1);
}

}  // namespace
}  // namespace strobe
