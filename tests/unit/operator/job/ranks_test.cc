#include "operator/job/ranks.h"

#include <gmock/gmock.h>

#include <set>

namespace strobe::job {
namespace {

using testing::ElementsAre;
using Labels = std::map<std::string, std::string>;

PodInfo Pod(Labels labels, Labels env = {}) {
  PodInfo pod;
  pod.phase = "Running";
  pod.labels = std::move(labels);
  pod.containers = {{.name = "trainer", .env = std::move(env)}};
  pod.trainers = {"trainer"};
  return pod;
}

std::vector<int> Ranks(const std::vector<PodInfo>& pods, const Shape* shape = nullptr,
                       const std::string& container = "") {
  std::vector<const PodInfo*> pointers;
  for (const PodInfo& pod : pods) pointers.push_back(&pod);
  std::vector<int> ranks;
  for (const PodRank& rank : AssignRanks(pointers, container, shape)) ranks.push_back(rank.rank);
  return ranks;
}

PodInfo JobSetPod(const std::string& role, int index, int global, int completion) {
  return Pod({{"jobset.sigs.k8s.io/jobset-name", "llm"},
              {"jobset.sigs.k8s.io/replicatedjob-name", role},
              {"jobset.sigs.k8s.io/job-index", std::to_string(index)},
              {"jobset.sigs.k8s.io/job-global-index", std::to_string(global)},
              {"batch.kubernetes.io/job-completion-index", std::to_string(completion)}});
}

// Four slices of two hosts: four pods have completion index 0.
TEST(AssignRanks, JobSetSlicesAreNumberedThroughTheWholeSet) {
  std::vector<PodInfo> pods;
  for (int slice = 3; slice >= 0; --slice) {
    for (int host = 0; host < 2; ++host) pods.push_back(JobSetPod("slice", slice, slice, host));
  }
  EXPECT_THAT(Ranks(pods), ElementsAre(6, 7, 4, 5, 2, 3, 0, 1));
}

TEST(AssignRanks, TheJobSetItselfSaysHowLargeItsJobsAre) {
  const Shape shape{.roles = {{"leader", 1, 1}, {"workers", 2, 4}}};
  // Some pods are not there yet; the others keep their numbers.
  const std::vector<PodInfo> pods = {JobSetPod("workers", 1, 2, 3), JobSetPod("workers", 0, 1, 0),
                                     JobSetPod("leader", 0, 0, 0)};
  EXPECT_THAT(Ranks(pods, &shape), ElementsAre(8, 1, 0));
}

TEST(AssignRanks, WithoutTheJobSetAGapMakesRanksUnknown) {
  EXPECT_THAT(Ranks({JobSetPod("a", 0, 0, 0), JobSetPod("b", 0, 1, 1), JobSetPod("b", 0, 1, 0)}),
              ElementsAre(0, 2, 1));
  // Jobs of one template have the same size, so job 0 lacks a pod.
  EXPECT_THAT(Ranks({JobSetPod("w", 0, 0, 0), JobSetPod("w", 1, 1, 1), JobSetPod("w", 1, 1, 0)}),
              ElementsAre(-1, -1, -1));
  EXPECT_THAT(Ranks({JobSetPod("w", 0, 0, 1), JobSetPod("w", 1, 1, 1)}), ElementsAre(-1, -1));
}

TEST(AssignRanks, GroupsOfALeaderWorkerSetDoNotRepeat) {
  const auto pod = [](int group, int worker) {
    PodInfo made = Pod({{"leaderworkerset.sigs.k8s.io/group-index", std::to_string(group)},
                        {"leaderworkerset.sigs.k8s.io/worker-index", std::to_string(worker)}});
    made.annotations["leaderworkerset.sigs.k8s.io/size"] = "3";
    return made;
  };
  EXPECT_THAT(Ranks({pod(0, 0), pod(0, 2), pod(1, 0), pod(2, 1)}), ElementsAre(0, 2, 3, 7));
}

TEST(AssignRanks, AKubeflowMasterComesBeforeItsWorkers) {
  const auto pod = [](const std::string& role, int index) {
    return Pod({{"training.kubeflow.org/replica-type", role},
                {"training.kubeflow.org/replica-index", std::to_string(index)}});
  };
  EXPECT_THAT(Ranks({pod("worker", 0), pod("master", 0), pod("worker", 1)}), ElementsAre(1, 0, 2));
  EXPECT_THAT(Ranks({pod("Worker", 0), pod("Worker", 1)}), ElementsAre(0, 1));
  EXPECT_THAT(Ranks({pod("chief", 0), pod("worker", 0), pod("ps", 0)}), ElementsAre(0, 1, -1));
  // The master has no pod yet; the job says that there will be one.
  const Shape shape{.roles = {{"Master", 1, 1}, {"Worker", 2, 1}}};
  EXPECT_THAT(Ranks({pod("worker", 0), pod("worker", 1)}, &shape), ElementsAre(1, 2));
}

TEST(AssignRanks, TheProcesssOwnVariableBeatsALabel) {
  const auto pod = [](int label, const std::string& rank) {
    return Pod({{"batch.kubernetes.io/job-completion-index", std::to_string(label)}},
               {{"RANK", rank}});
  };
  EXPECT_THAT(Ranks({pod(0, "5"), pod(1, "4")}), ElementsAre(5, 4));
  // A template that gives every pod the same number does not tell the ranks.
  EXPECT_THAT(Ranks({pod(0, "0"), pod(1, "0")}), ElementsAre(0, 1));
  EXPECT_THAT(Ranks({pod(0, "three"), pod(1, "4")}), ElementsAre(0, 1));
}

TEST(AssignRanks, WhatTheUserSaysBeatsEverything) {
  PodInfo first = Pod({}, {{"RANK", "0"}}), second = Pod({}, {{"RANK", "1"}});
  first.annotations["strobe.dev/rank"] = "1";
  second.labels["strobe.dev/rank"] = "0";
  EXPECT_THAT(Ranks({first, second}), ElementsAre(1, 0));
}

TEST(AssignRanks, TpuWorkersOfSeveralSlices) {
  const auto pod = [](const std::string& slice, const std::string& worker) {
    return Pod({}, {{"TPU_WORKER_ID", worker},
                    {"MEGASCALE_SLICE_ID", slice},
                    {"TPU_WORKER_HOSTNAMES", "a,b,c,d"}});
  };
  EXPECT_THAT(Ranks({pod("0", "3"), pod("1", "0"), pod("2", "1")}), ElementsAre(3, 4, 9));
  EXPECT_THAT(Ranks({Pod({}, {{"TPU_WORKER_ID", "1"}}), Pod({}, {{"TPU_WORKER_ID", "0"}})}),
              ElementsAre(1, 0));
}

TEST(AssignRanks, TheChosenContainersEnvironmentCounts) {
  PodInfo pod = Pod({}, {{"RANK", "7"}});
  pod.containers.push_back({.name = "other", .env = {{"RANK", "9"}}});
  EXPECT_THAT(Ranks({pod}), ElementsAre(7));
  EXPECT_THAT(Ranks({pod}, nullptr, "other"), ElementsAre(9));
}

TEST(AssignRanks, TwoWithOneNumberAreNotKnown) {
  const Labels zero = {{"batch.kubernetes.io/job-completion-index", "0"}};
  EXPECT_THAT(Ranks({Pod(zero), Pod(zero)}), ElementsAre(-1, -1));
  EXPECT_THAT(Ranks({Pod({{"batch.kubernetes.io/job-completion-index", "99999999999"}})}),
              ElementsAre(-1));
}

TEST(AssignRanks, APodThatGoesAwayGivesItsNumberUp) {
  const Labels zero = {{"batch.kubernetes.io/job-completion-index", "0"}};
  PodInfo leaving = Pod(zero);
  leaving.terminating = true;
  const PodInfo fresh = Pod(zero);
  const std::vector<PodRank> ranks = AssignRanks({&leaving, &fresh}, "", nullptr);
  EXPECT_EQ(ranks[0].rank, -1);
  EXPECT_TRUE(ranks[0].replaced);
  EXPECT_EQ(ranks[1].rank, 0);
  EXPECT_FALSE(ranks[1].replaced);
}

TEST(AssignRanks, SomeMayBeUnknown) {
  EXPECT_THAT(Ranks({Pod({}, {{"RANK", "0"}}), Pod({}), Pod({}, {{"RANK", "1"}})}),
              ElementsAre(0, -1, 1));
}

TEST(AssignRanks, AreUniqueWhateverLabelsSay) {
  const std::vector<std::string> keys = {"batch.kubernetes.io/job-completion-index",
                                         "jobset.sigs.k8s.io/job-global-index",
                                         "jobset.sigs.k8s.io/jobset-name",
                                         "jobset.sigs.k8s.io/job-index",
                                         "jobset.sigs.k8s.io/replicatedjob-name",
                                         "leaderworkerset.sigs.k8s.io/group-index",
                                         "leaderworkerset.sigs.k8s.io/worker-index",
                                         "leaderworkerset.sigs.k8s.io/size",
                                         "training.kubeflow.org/replica-type",
                                         "training.kubeflow.org/replica-index",
                                         "apps.kubernetes.io/pod-index",
                                         "strobe.dev/rank"};
  const std::vector<std::string> values = {"0", "1", "2", "3", "master", "worker", "", "1000001"};
  unsigned state = 1;
  const auto random = [&state](std::size_t below) {
    state = state * 1103515245u + 12345u;
    return (state >> 16) % below;
  };
  const Shape shape{.roles = {{"1", 2, 2}, {"2", 1, 3}, {"Master", 2, 1}}};
  for (int round = 0; round < 3000; ++round) {
    std::vector<PodInfo> pods;
    for (std::size_t i = 0; i < 1 + random(6); ++i) {
      PodInfo pod = Pod({});
      for (const std::string& key : keys) {
        if (random(2) == 0) pod.labels[key] = values[random(values.size())];
      }
      if (random(3) == 0) pod.containers[0].env["RANK"] = values[random(values.size())];
      pod.terminating = random(5) == 0;
      pods.push_back(std::move(pod));
    }
    std::set<int> seen;
    for (const int rank : Ranks(pods, random(2) == 0 ? &shape : nullptr)) {
      if (rank < 0) continue;
      EXPECT_TRUE(seen.insert(rank).second) << "round " << round;
      EXPECT_LE(rank, 1'000'000);
    }
  }
}

}  // namespace
}  // namespace strobe::job
