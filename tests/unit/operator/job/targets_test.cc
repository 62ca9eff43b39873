#include "operator/job/targets.h"

#include <gmock/gmock.h>

#include "operator/job/pod.h"

namespace strobe::job {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

PodInfo Pod(const std::string& name, int rank = -1) {
  PodInfo pod;
  pod.name = name;
  pod.ip = "10.0.0.1";
  pod.phase = "Running";
  pod.sidecar_port = 9470;
  pod.containers = {{.name = "trainer"}};
  pod.trainers = {"trainer"};
  if (rank >= 0) pod.labels["batch.kubernetes.io/job-completion-index"] = std::to_string(rank);
  return pod;
}

std::vector<PodInfo> Pods(int count) {
  std::vector<PodInfo> pods;
  for (int i = 0; i < count; ++i) pods.push_back(Pod("p" + std::to_string(i), i));
  return pods;
}

TargetSpec OfJob(const std::string& kind = "Job") {
  TargetSpec spec;
  spec.job = kube::JobRef{"", kind, "llm"};
  return spec;
}

Shape Of(std::size_t pods) { return {.roles = {{"", pods, 1}}}; }

std::vector<std::string> NamesOf(const Selection& selection) {
  std::vector<std::string> names;
  for (const capture::Target& target : selection.targets) names.push_back(target.name);
  return names;
}

TEST(SelectTargets, OrdersByRankAndDerivesTheAddress) {
  const auto targets = SelectTargets({}, {}, {Pod("b", 10), Pod("a", 2)}).targets;
  ASSERT_THAT(targets, SizeIs(2));
  EXPECT_EQ(targets[0].name, "a");
  EXPECT_EQ(targets[0].address, "10.0.0.1:9470");
  EXPECT_EQ(targets[0].container, "trainer");
}

TEST(SelectTargets, SeveralPortsMakeAnAddressListOfGrpcs) {
  PodInfo pod = Pod("a", 0);
  pod.other_ports = {20002, 20003};
  pod.ip = "10.0.0.1";
  pod.sidecar_port = 20001;
  EXPECT_EQ(SelectTargets({}, {}, {pod}).targets[0].address,
            "ipv4:10.0.0.1:20001,10.0.0.1:20002,10.0.0.1:20003");
  pod.ip = "fd00::1";
  EXPECT_EQ(SelectTargets({}, {}, {pod}).targets[0].address,
            "ipv6:[fd00::1]:20001,[fd00::1]:20002,[fd00::1]:20003");
}

TEST(SelectTargets, BracketsIpv6) {
  PodInfo pod = Pod("a");
  pod.ip = "fd00::1";
  EXPECT_EQ(SelectTargets({}, {}, {pod}).targets[0].address, "[fd00::1]:9470");
}

TEST(SelectTargets, KeepsPodsThatCannotTakePartAndSaysWhy) {
  PodInfo bare = Pod("bare"), young = Pod("young"), leaving = Pod("leaving");
  bare.sidecar_port = 0;
  young.ip = "";
  young.phase = "Pending";
  leaving.terminating = true;
  const Selection selection = SelectTargets({}, {}, {bare, leaving, young});
  EXPECT_EQ(selection.targets[0].outcome, Outcome::kSidecarMissing);
  bare.annotations["strobe.dev/not-injected"] = "pod first of this namespace waits";
  EXPECT_EQ(SelectTargets({}, {}, {bare}).targets[0].message,
            "the pod was not injected: pod first of this namespace waits");
  EXPECT_EQ(selection.targets[1].outcome, Outcome::kUnreachable);
  EXPECT_EQ(selection.targets[2].message, "the pod is Pending and has no address yet");
  EXPECT_EQ(selection.usable(), 0u);
  EXPECT_EQ(selection.may_come(), 2u) << "no time gives a pod a sidecar";
  young.unschedulable = "cannot be scheduled: Insufficient cpu";
  EXPECT_EQ(SelectTargets({}, {}, {young}).targets[0].message,
            "the pod is Pending and cannot be scheduled: Insufficient cpu");
}

TEST(SelectTargets, LeavesOutPodsThatHaveEndedUnlessNamed) {
  PodInfo ended = Pod("ended");
  ended.phase = "Succeeded";
  EXPECT_THAT(SelectTargets({}, {}, {ended}).targets, IsEmpty());
  const auto named =
      SelectTargets({}, {.selector = "", .names = {"ended", "gone"}, .owner = {}}, {ended}).targets;
  ASSERT_THAT(named, SizeIs(2));
  EXPECT_EQ(named[0].outcome, Outcome::kUnreachable);
  EXPECT_EQ(named[1].outcome, Outcome::kWorkerMissing);
  EXPECT_THAT(named[1].message, HasSubstr("no such pod"));
}

// Regression: a job with 300 of its 512 pods ended as AllWorkersOk, because pods that had not been
// created were not counted.
TEST(SelectTargets, WorkersThatHaveNoPodYetAreTargetsThatAreMissing) {
  const Shape shape = Of(512);
  const Selection selection = SelectTargets(OfJob(), {}, Pods(300), &shape);
  EXPECT_THAT(selection.targets, SizeIs(512));
  EXPECT_EQ(selection.usable(), 300u);
  EXPECT_EQ(selection.may_come(), 212u);
  EXPECT_EQ(selection.expected, 512u);
  EXPECT_EQ(CountWords(selection), "300/512 workers are present");
  const capture::Target& missing = selection.targets[300];
  EXPECT_EQ(missing.outcome, Outcome::kWorkerMissing);
  EXPECT_EQ(missing.rank, 300);
  EXPECT_EQ(missing.name, "(rank 300)");
  EXPECT_EQ(missing.message, "the Job should have 512 workers; 300 of them have a pod");
}

TEST(SelectTargets, WhoeverIsMissingHasNoRankWhenThoseOfOthersAreNotKnown) {
  const Shape shape = Of(3);
  EXPECT_THAT(NamesOf(SelectTargets(OfJob(), {}, {Pod("a")}, &shape)),
              ElementsAre("a", "(missing 1)", "(missing 2)"));
}

TEST(SelectTargets, ExpectedWorkersSaysItForASelector) {
  TargetSpec spec;
  spec.selector = "app=train";
  const Selection unknown = SelectTargets(spec, {}, Pods(3));
  EXPECT_EQ(unknown.expected, std::nullopt);
  EXPECT_THAT(CountWords(unknown),
              HasSubstr("3 workers are present; the expected number is not known"));
  spec.expected_workers = 4;
  EXPECT_THAT(SelectTargets(spec, {}, Pods(3)).targets, SizeIs(4));
  EXPECT_THAT(SelectTargets(spec, {}, Pods(5)).targets, SizeIs(5)) << "more are no harm";
}

TEST(SelectTargets, AJobThatCannotBeReadIsSaidToBeUnknown) {
  const Shape shape{.unknown = "the operator may not read Job team/llm"};
  const Selection selection = SelectTargets(OfJob(), {}, Pods(2), &shape);
  EXPECT_THAT(selection.targets, SizeIs(2));
  EXPECT_THAT(CountWords(selection), HasSubstr("may not read Job team/llm"));
  const Shape huge = Of(kMaxWorkers + 1);
  EXPECT_THAT(SelectTargets(OfJob(), {}, Pods(2), &huge).not_known, HasSubstr("more than 10000"));
}

TEST(SelectTargets, WorkersThatHaveDoneTheirWorkAreNotMissing) {
  std::vector<PodInfo> pods = Pods(4);
  pods[3].phase = "Succeeded";
  const Shape set = Of(4);
  EXPECT_EQ(SelectTargets(OfJob("JobSet"), {}, pods, &set).expected, 3u);
  Shape job = Of(3);  // A Job's shape already leaves out pods that have succeeded.
  job.of_running_pods = true;
  EXPECT_EQ(SelectTargets(OfJob(), {}, pods, &job).expected, 3u);
  pods[3].phase = "Failed";  // Will be replaced.
  EXPECT_EQ(SelectTargets(OfJob("JobSet"), {}, pods, &set).expected, 4u);
}

TEST(SelectTargets, APodThatGoesAwayIsNoWorkerOnceAnotherHasItsPlace) {
  std::vector<PodInfo> pods = Pods(2);
  PodInfo old = Pod("old", 1);
  old.terminating = true;
  pods.push_back(old);
  EXPECT_THAT(NamesOf(SelectTargets({}, {}, pods)), ElementsAre("p0", "p1"));
  // Its rank is now unknown; only the job's size shows that it was replaced.
  pods[2].labels.clear();
  EXPECT_THAT(NamesOf(SelectTargets({}, {}, pods)), ElementsAre("p0", "p1", "old"));
  const Shape shape = Of(2);
  EXPECT_THAT(NamesOf(SelectTargets(OfJob(), {}, pods, &shape)), ElementsAre("p0", "p1"));
  pods.erase(pods.begin());  // One worker has no new pod yet, so the old pod counts.
  EXPECT_THAT(NamesOf(SelectTargets(OfJob(), {}, pods, &shape)), ElementsAre("p1", "old"));
}

TEST(SelectTargets, WhoOnlyCoordinatesIsNoWorkerOfAJob) {
  PodInfo head = Pod("head"), worker = Pod("worker"), launcher = Pod("launcher");
  head.labels["ray.io/node-type"] = "head";
  worker.labels["ray.io/node-type"] = "worker";
  launcher.labels["training.kubeflow.org/replica-type"] = "launcher";
  head.sidecar_port = launcher.sidecar_port = 0;
  const Shape shape = Of(1);
  EXPECT_THAT(NamesOf(SelectTargets(OfJob("RayCluster"), {}, {head, worker, launcher}, &shape)),
              ElementsAre("worker"));
  // A coordinator with a sidecar is meant to be recorded, so it counts as a worker.
  head.sidecar_port = 9470;
  const Selection both = SelectTargets(OfJob("RayCluster"), {}, {head, worker}, &shape);
  EXPECT_THAT(both.targets, SizeIs(2));
  EXPECT_EQ(both.expected, 2u);
  // A selector selects every pod that matches, including coordinators.
  EXPECT_THAT(SelectTargets({}, {}, {launcher}).targets, SizeIs(1));
}

TEST(SelectTargets, SamplesByRankOrEvenly) {
  TargetSpec spec;
  spec.sample = true;
  spec.count = 2;
  auto targets = SelectTargets(spec, {}, Pods(8)).targets;
  ASSERT_THAT(targets, SizeIs(2));
  EXPECT_EQ(targets[0].rank, 0);
  EXPECT_EQ(targets[1].rank, 4);
  spec.count = 0;
  spec.ranks = {7};
  targets = SelectTargets(spec, {}, Pods(8)).targets;
  ASSERT_THAT(targets, SizeIs(1));
  EXPECT_EQ(targets[0].name, "p7");
}

TEST(SelectTargets, InEachTurnOtherWorkersAreSampledUntilAllHaveComeRound) {
  TargetSpec spec;
  spec.sample = true;
  for (const int workers : {1, 4, 7, 8, 10, 16}) {
    for (const std::size_t count : {1, 3, 4, 20}) {
      spec.count = count;
      const std::size_t turns = (static_cast<std::size_t>(workers) + count - 1) / count;
      std::map<int, int> recorded;
      for (spec.rotation = 100 * turns; *spec.rotation < 101 * turns; ++*spec.rotation) {
        const auto targets = SelectTargets(spec, {}, Pods(workers)).targets;
        EXPECT_LE(targets.size(), count);
        for (const capture::Target& target : targets) ++recorded[target.rank];
      }
      EXPECT_EQ(recorded.size(), static_cast<std::size_t>(workers));
      for (const auto& [rank, times] : recorded) EXPECT_EQ(times, 1) << rank;
    }
  }
  spec.count = 4;
  spec.rotation = 1;
  std::vector<int> ranks;
  for (const capture::Target& target : SelectTargets(spec, {}, Pods(16)).targets)
    ranks.push_back(target.rank);
  EXPECT_THAT(ranks, testing::ElementsAre(1, 5, 9, 13)) << "evenly spread";
}

TEST(SelectTargets, ARankThatNobodyHasIsMissing) {
  TargetSpec spec;
  spec.sample = true;
  spec.ranks = {0, 9};
  const auto targets = SelectTargets(spec, {}, Pods(8)).targets;
  ASSERT_THAT(targets, SizeIs(2));
  EXPECT_EQ(targets[1].outcome, Outcome::kWorkerMissing);
  EXPECT_EQ(targets[1].message, "no pod has rank 9");
  EXPECT_THAT(SelectTargets(spec, {}, {Pod("a"), Pod("b")}).targets[0].message,
              HasSubstr("ranks of these pods are not known"));
}

TEST(SelectTargets, AContainerThatAPodDoesNotHaveIsAnOutcome) {
  TargetSpec spec;
  spec.container = "learner";
  PodInfo with = Pod("with");
  with.containers.push_back({.name = "learner", .devices = {.planes = {.framework = true}}});
  with.trainers = {"trainer", "learner"};
  const auto targets = SelectTargets(spec, {}, {with, Pod("without")}).targets;
  EXPECT_TRUE(targets[0].usable());
  EXPECT_EQ(targets[0].container, "learner");
  EXPECT_EQ(targets[0].only_container, "learner") << "the other one's programs must be left alone";
  EXPECT_TRUE(targets[0].planes.framework);
  EXPECT_EQ(targets[1].outcome, Outcome::kWorkerMissing);
  EXPECT_EQ(targets[1].message,
            "the pod has no container learner (target.container); it has trainer");
  EXPECT_FALSE(targets[1].may_come);
}

TEST(SelectTargets, AContainerThatTheSidecarDoesNotServeIsAnOutcome) {
  TargetSpec spec;
  spec.container = "proxy";
  PodInfo pod = Pod("a");
  pod.containers.push_back({.name = "proxy"});
  pod.injected = true;
  const auto targets = SelectTargets(spec, {}, {pod}).targets;
  EXPECT_EQ(targets[0].outcome, Outcome::kSidecarMissing);
  EXPECT_THAT(targets[0].message, HasSubstr("serves trainer and not container proxy"));
  // A pod's only trainer need not be told apart from other containers.
  spec.container = "trainer";
  EXPECT_EQ(SelectTargets(spec, {}, {pod}).targets[0].only_container, "");
}

TEST(SelectTargets, WithoutAChoiceAllTrainersCount) {
  PodInfo pod = Pod("a");
  pod.containers = {{.name = "x", .devices = {.planes = {.framework = true}}},
                    {.name = "y", .devices = {.planes = {.agent = true}}},
                    {.name = "z"}};
  pod.trainers = {"x", "y"};
  const capture::Target target = SelectTargets({}, {}, {pod}).targets[0];
  EXPECT_EQ(target.container, "x,y");
  EXPECT_EQ(target.planes, (capture::ExpectedPlanes{.framework = true, .agent = true}));
}

TEST(QueryFor, KnowsHowJobsLabelTheirPods) {
  TargetSpec spec = OfJob("PyTorchJob");
  EXPECT_EQ(QueryFor(spec)->selector, "training.kubeflow.org/job-name=llm");
  spec.job->kind = "StatefulSet";
  EXPECT_EQ(QueryFor(spec)->owner->name, "llm");
  spec.job->kind = "Deployment";
  EXPECT_EQ(QueryFor(spec)->owner->kind, "Deployment");
  spec.job->kind = "CronJob";
  EXPECT_THAT(std::string(QueryFor(spec).status().message()),
              HasSubstr("target.jobRef.kind CronJob"));
}

// Regression: the operator kept listing pods although the API server answered each list with 400.
TEST(QueryFor, RefusesANameThatNoLabelCanHave) {
  TargetSpec spec = OfJob();
  spec.job->name = std::string(64, 'a');
  EXPECT_THAT(std::string(QueryFor(spec).status().message()), HasSubstr("target.jobRef.name"));
}

TEST(SelectTargets, AnOwnerKeepsOnlyItsOwnPods) {
  PodInfo mine = Pod("mine"), other = Pod("other");
  mine.owners = {{"StatefulSet", "llm"}};
  other.owners = {{"StatefulSet", "x"}};
  EXPECT_THAT(
      NamesOf(SelectTargets(
          {}, {.selector = "", .names = {}, .owner = kube::JobRef{"", "StatefulSet", "llm"}},
          {mine, other})),
      ElementsAre("mine"));
}

// The owners of a Deployment's pods are its ReplicaSets, two while it replaces its pods.
TEST(SelectTargets, ADeploymentsPodsAreThoseOfItsReplicaSets) {
  const auto of = [](const std::string& name, const std::string& owner, const std::string& hash) {
    PodInfo pod = Pod(name);
    pod.owners = {{"ReplicaSet", owner}};
    if (!hash.empty()) pod.labels["pod-template-hash"] = hash;
    KeepUsed(pod);
    return pod;
  };
  const TargetSpec spec = OfJob("Deployment");
  const Shape shape = Of(3);
  const Selection selection =
      SelectTargets(spec, *QueryFor(spec),
                    {of("new", "llm-5d8f", "5d8f"), of("old", "llm-77bc", "77bc"),
                     of("of-another", "llm-web-5d8f", "5d8f"), of("by-hand", "llm-5d8f", ""),
                     of("set", "llm", "5d8f")},
                    &shape);
  EXPECT_THAT(NamesOf(selection), ElementsAre("new", "old", "(missing 1)"));
  EXPECT_EQ(selection.job, "Deployment/llm");
}

TEST(SelectTargets, NamesTheJob) {
  EXPECT_EQ(SelectTargets(OfJob("PyTorchJob"), {}, Pods(2)).job, "PyTorchJob/llm");
  std::vector<PodInfo> pods = Pods(2);
  EXPECT_EQ(SelectTargets({}, {}, pods).job, "") << "nobody owns them";
  pods[0].owners = pods[1].owners = {{"Job", "llm"}};
  EXPECT_EQ(SelectTargets({}, {}, pods).job, "Job/llm");
  pods[1].owners = {{"Job", "other"}};
  EXPECT_EQ(SelectTargets({}, {}, pods).job, "") << "they are pods of two jobs";
}

TEST(SelectTargets, RanksOfProcessesSelectPodsAndProcesses) {
  std::vector<PodInfo> pods = Pods(3);
  for (PodInfo& pod : pods) pod.containers[0].processes = 4;
  TargetSpec spec;
  spec.sample = true;
  spec.ranks = {11, 4, 6, 30};
  const auto targets = SelectTargets(spec, {}, pods).targets;
  ASSERT_THAT(targets, SizeIs(3));
  EXPECT_EQ(targets[0].name, "p1");
  EXPECT_THAT(targets[0].ranks, ElementsAre(4u, 6u));
  EXPECT_EQ(targets[1].name, "p2");
  EXPECT_THAT(targets[1].ranks, ElementsAre(11u));
  EXPECT_EQ(targets[2].name, "(rank 30)");
  EXPECT_EQ(targets[2].message, "no pod has rank 7");
}

TEST(SelectTargets, AnAnnotationSaysHowManyProcessesThereAre) {
  std::vector<PodInfo> pods = Pods(2);
  for (PodInfo& pod : pods) pod.annotations["strobe.dev/processes"] = "2";
  TargetSpec spec;
  spec.sample = true;
  spec.ranks = {3};
  spec.local_ranks = {1};
  const auto targets = SelectTargets(spec, {}, pods).targets;
  ASSERT_THAT(targets, SizeIs(1));
  EXPECT_EQ(targets[0].name, "p1");
  EXPECT_THAT(targets[0].ranks, ElementsAre(3u));
  EXPECT_THAT(targets[0].local_ranks, ElementsAre(1u));
}

TEST(SelectTargets, ProcessesThatMustBeFoundAreToldByAnAnnotationOrAClearCommand) {
  std::vector<PodInfo> pods = Pods(3);
  for (PodInfo& pod : pods) pod.containers[0].processes = 4;
  pods[0].containers[0].certain_processes = pods[1].containers[0].certain_processes = 4;
  pods[1].annotations["strobe.dev/processes"] = "3";
  const auto targets = SelectTargets({}, {}, pods).targets;
  ASSERT_THAT(targets, SizeIs(3));
  EXPECT_EQ(targets[0].expected_processes, 4u);
  EXPECT_FALSE(targets[0].processes_annotated);
  EXPECT_EQ(targets[1].expected_processes, 3u);
  EXPECT_TRUE(targets[1].processes_annotated);
  EXPECT_EQ(targets[2].expected_processes, 0u) << "a variable may be a default that nobody uses";
}

TEST(SelectTargets, WithOneProcessPerPodTheSidecarIsNotAskedForRanks) {
  TargetSpec spec;
  spec.sample = true;
  spec.ranks = {1};
  const auto targets = SelectTargets(spec, {}, Pods(2)).targets;
  ASSERT_THAT(targets, SizeIs(1));
  EXPECT_THAT(targets[0].ranks, IsEmpty());
}

}  // namespace
}  // namespace strobe::job
