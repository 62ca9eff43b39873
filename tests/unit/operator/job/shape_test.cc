#include "operator/job/shape.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "operator/job/pod.h"
#include "operator/job/targets.h"
#include "tests/fakes/unit_dir.h"

namespace strobe::job {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

kube::JobRef Named(std::string_view kind) { return {"", std::string(kind), "llm"}; }
std::optional<std::size_t> Workers(std::string_view kind, const char* object) {
  return WorkersOf(ParseJob(Named(kind), json::parse(object)));
}
bool Suspended(std::string_view kind, const char* object) {
  return ParseJob(Named(kind), json::parse(object)).suspended;
}

TEST(ParseJob, AJobRunsSoManyPodsAtOnce) {
  EXPECT_EQ(Workers("Job", R"({"spec": {}})"), 1u);
  EXPECT_EQ(Workers("Job", R"({"spec": {"parallelism": 512, "completions": 512}})"), 512u);
  EXPECT_EQ(Workers("Job", R"({"spec": {"parallelism": 8, "completions": 3}})"), 3u);
  EXPECT_EQ(Workers("Job", R"({"spec": {"parallelism": 8}})"), 8u) << "a queue of work";
  EXPECT_EQ(Workers("Job", R"({"spec": {"parallelism": 8, "completions": 10},
                              "status": {"succeeded": 7}})"),
            3u);
  EXPECT_TRUE(Suspended("Job", R"({"spec": {"parallelism": 8, "suspend": true}})"));
  EXPECT_TRUE(Suspended("Job", R"({"spec": {"parallelism": 0}})"));
  EXPECT_FALSE(Suspended("Job", R"({"spec": {"parallelism": 8}})"));
}

TEST(ParseJob, AJobSetIsTheSumOfItsJobs) {
  constexpr char kSet[] = R"({"spec": {"replicatedJobs": [
    {"name": "leader", "template": {"spec": {}}},
    {"name": "workers", "replicas": 4, "template": {"spec": {"parallelism": 2, "completions": 2}}}]}})";
  EXPECT_EQ(Workers("JobSet", kSet), 9u);
  EXPECT_EQ(Workers("TrainJob", kSet), 9u);
  const Shape shape = ParseJob(Named("JobSet"), json::parse(kSet));
  EXPECT_EQ(shape.roles[1].name, "workers");
  EXPECT_EQ(shape.roles[1].pods_per_replica, 2u);
  EXPECT_TRUE(Suspended("JobSet", R"({"spec": {"suspend": true, "replicatedJobs": [{}]}})"));
}

TEST(ParseJob, ALeaderWorkerSetIsItsGroups) {
  EXPECT_EQ(Workers("LeaderWorkerSet",
                    R"({"spec": {"replicas": 3, "leaderWorkerTemplate": {"size": 4}}})"),
            12u);
  EXPECT_EQ(Workers("LeaderWorkerSet", R"({"spec": {}})"), 1u);
  EXPECT_TRUE(Suspended("LeaderWorkerSet", R"({"spec": {"replicas": 0}})"));
}

TEST(ParseJob, KubeflowJobsCountWhoTrains) {
  EXPECT_EQ(Workers("PyTorchJob", R"({"spec": {"pytorchReplicaSpecs": {
              "Master": {"replicas": 1}, "Worker": {"replicas": 7}}}})"),
            8u);
  EXPECT_EQ(Workers("TFJob", R"({"spec": {"tfReplicaSpecs": {
              "Chief": {}, "PS": {"replicas": 2}, "Worker": {"replicas": 3}, "Evaluator": {}}}})"),
            4u);
  EXPECT_EQ(Workers("MPIJob", R"({"spec": {"mpiReplicaSpecs": {
              "Launcher": {"replicas": 1}, "Worker": {"replicas": 5}}}})"),
            5u);
  EXPECT_EQ(Workers("JAXJob", R"({"spec": {"jaxReplicaSpecs": {"Worker": {"replicas": 2}}}})"), 2u);
  EXPECT_TRUE(Suspended("PyTorchJob", R"({"spec": {"runPolicy": {"suspend": true},
                                          "pytorchReplicaSpecs": {"Worker": {}}}})"));
  EXPECT_THAT(ParseJob(Named("XGBoostJob"), json::parse(R"({"spec": {}})")).unknown,
              HasSubstr("ReplicaSpecs"));
}

TEST(ParseJob, ARayClusterIsItsWorkers) {
  EXPECT_EQ(Workers("RayCluster", R"({"spec": {"headGroupSpec": {}, "workerGroupSpecs": [
              {"groupName": "a", "replicas": 2, "numOfHosts": 4}, {"groupName": "b", "replicas": 1},
              {"groupName": "off", "replicas": 9, "suspend": true},
              {"groupName": "least", "minReplicas": 3}]}})"),
            12u);
  EXPECT_TRUE(Suspended("RayCluster", R"({"spec": {"suspend": true}})"));
}

TEST(ParseJob, SetsOfPodsSayTheirReplicas) {
  EXPECT_EQ(Workers("StatefulSet", R"({"spec": {"replicas": 5}})"), 5u);
  EXPECT_EQ(Workers("ReplicaSet", R"({"spec": {}})"), 1u);
  EXPECT_EQ(Workers("Deployment", R"({"spec": {"replicas": 3}})"), 3u);
  EXPECT_TRUE(Suspended("StatefulSet", R"({"spec": {"replicas": 0}})"));
  EXPECT_EQ(Workers("DaemonSet", R"({"status": {"desiredNumberScheduled": 6}})"), 6u);
  EXPECT_EQ(Workers("DaemonSet", R"({})"), std::nullopt);
}

TEST(ParseJob, AWorkloadWaitsUntilItIsAdmitted) {
  constexpr char kQueued[] =
      R"({"spec": {"podSets": [{"name": "a", "count": 2}, {"name": "b", "count": 3}]},
    "status": {"conditions": [{"type": "Admitted", "status": "False"}]}})";
  EXPECT_EQ(Workers("Workload", kQueued), 5u);
  EXPECT_TRUE(Suspended("Workload", kQueued));
  EXPECT_FALSE(Suspended("Workload", R"({"spec": {"podSets": [{"count": 1}]},
    "status": {"conditions": [{"type": "Admitted", "status": "True"}]}})"));
}

// The number of targets of a capture is limited, whatever an object contains.
TEST(ParseJob, NumbersThatNoJobCanHaveAreNotKnown) {
  EXPECT_EQ(Workers("Job", R"({"spec": {"parallelism": 2147483647}})"), std::nullopt);
  EXPECT_EQ(Workers("Job", R"({"spec": {"parallelism": 18446744073709551615}})"), std::nullopt);
  EXPECT_EQ(Workers("JobSet", R"({"spec": {"replicatedJobs": [
      {"replicas": 9999, "template": {"spec": {"parallelism": 9999}}}]}})"),
            std::nullopt);
  EXPECT_EQ(
      Workers("JobSet", R"({"spec": {"replicatedJobs": [{"replicas": 0}, {"replicas": 10000}]}})"),
      10000u);
  EXPECT_EQ(Workers("Job", R"({"spec": {"parallelism": -3}})"), 1u);
}

TEST(ParseJob, ObjectsOfOddShapesThrowNothing) {
  for (const char* kind : {"Job", "JobSet", "LeaderWorkerSet", "PyTorchJob", "RayCluster",
                           "DaemonSet", "Workload", "StatefulSet", "RayJob", "Nonsense"}) {
    for (const char* object :
         {"null", "[]", "7", R"({"spec": []})", R"({"spec": {"replicatedJobs": {"a": 1}}})",
          R"({"spec": {"parallelism": "many", "replicatedJobs": [7], "podSets": [[]],
              "workerGroupSpecs": ["x"], "pytorchReplicaSpecs": {"Worker": 3}, "replicas": {}},
              "status": {"conditions": [1], "succeeded": []}})"})
      ParseJob(Named(kind), json::parse(object));
  }
}

TEST(ParseJob, AVolcanoJobIsItsTasks) {
  const kube::JobRef volcano{"batch.volcano.sh/v1alpha1", "Job", "llm"};
  const auto parse = [&volcano](const char* object) {
    return ParseJob(volcano, json::parse(object));
  };
  EXPECT_EQ(WorkersOf(parse(R"({"spec": {"tasks": [{"name": "master", "replicas": 1},
                                                   {"name": "worker", "replicas": 3}]}})")),
            4u);
  EXPECT_EQ(WorkersOf(parse(R"({"spec": {"plugins": {"mpi": ["--master=launcher"]}, "tasks": [
                {"name": "launcher", "replicas": 1}, {"name": "worker", "replicas": 3}]}})")),
            3u)
      << "MPI's launcher does not train";
  EXPECT_TRUE(parse(R"({"spec": {"tasks": [{"name": "worker", "replicas": 3}]},
                        "status": {"state": {"phase": "Pending"}}})")
                  .suspended);
  EXPECT_FALSE(parse(R"({"spec": {"tasks": [{"name": "worker", "replicas": 3}]},
                         "status": {"state": {"phase": "Running"}}})")
                   .suspended);
  for (const char* odd : {"null", R"({"spec": {"tasks": {"a": 1}, "plugins": {"mpi": 7}}})",
                          R"({"spec": {"tasks": [7], "plugins": {"ray": [1, {}]}}})"})
    parse(odd);
}

TEST(ParseJob, MpisLauncherTrainsIfItIsAWorkerToo) {
  EXPECT_EQ(Workers("MPIJob", R"({"spec": {"runLauncherAsWorker": true, "mpiReplicaSpecs": {
              "Launcher": {"replicas": 1}, "Worker": {"replicas": 2}}}})"),
            3u);
}

TEST(ParseJob, OfATrainJobOnlyTheTrainersCount) {
  EXPECT_EQ(Workers("TrainJob", R"({"spec": {"replicatedJobs": [
              {"name": "data", "template": {"metadata": {"labels": {
                 "trainer.kubeflow.org/trainjob-ancestor-step": "dataset-initializer"}}}},
              {"name": "node", "template": {"metadata": {"labels": {
                 "trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                 "spec": {"parallelism": 4, "completions": 4}}}]}})"),
            4u);
}

TEST(ParseJob, AWorkloadOfPlainPodsHasTheirNames) {
  const Shape shape = ParseJob(Named("Workload"), json::parse(R"({
      "metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a"},
                                       {"apiVersion": "v1", "kind": "Pod", "name": "b"}]},
      "spec": {"podSets": [{"count": 2}]}})"));
  EXPECT_THAT(shape.pods, ElementsAre("a", "b"));
  EXPECT_THAT(ParseJob(Named("Workload"), json::parse(R"({
      "metadata": {"ownerReferences": [
          {"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper", "name": "a"}]},
      "spec": {"podSets": [{"count": 2}]}})"))
                  .unknown,
              HasSubstr("AppWrapper"));
}

TEST(StandsFor, AWorkloadsOwnerMustBeAKindThatIsKnown) {
  const auto owner = [](const char* version, const char* kind, const char* name) {
    return StandsFor(
        {"", "Workload", "w"},
        json{{"metadata",
              {{"ownerReferences", {{{"apiVersion", version}, {"kind", kind}, {"name", name}}}}}}});
  };
  EXPECT_EQ(owner("ray.io/v1", "RayJob", "llm")->kind, "RayJob");
  EXPECT_FALSE(owner("v1", "Secret", "llm"));
  EXPECT_FALSE(owner("kueue.x-k8s.io/v1beta1", "Workload", "llm"));
  EXPECT_FALSE(owner("batch/v1", "Job", "../secrets/llm"));
}

TEST(JobPaths, TriesTheVersionsOfAKind) {
  EXPECT_THAT(JobPaths("ml", {"", "MPIJob", "x"}),
              ElementsAre("/apis/kubeflow.org/v2beta1/namespaces/ml/mpijobs/x",
                          "/apis/kubeflow.org/v1/namespaces/ml/mpijobs/x"));
  EXPECT_THAT(JobPaths("ml", {"kubeflow.org/v1", "MPIJob", "x"}),
              ElementsAre("/apis/kubeflow.org/v1/namespaces/ml/mpijobs/x"));
  EXPECT_THAT(JobPaths("ml", {"trainer.kubeflow.org/v1alpha1", "TrainJob", "x"}),
              ElementsAre("/apis/jobset.x-k8s.io/v1alpha2/namespaces/ml/jobsets/x"));
}

// The operator reads with its own rights, so users must not choose the path.
TEST(JobPaths, UsersDoNotChooseWhatIsRead) {
  for (const char* version : {"v1", "apps/v1", "batch/", "batch/../../api/v1", "batch/v1/x", "/v1"})
    EXPECT_THAT(JobPaths("ml", {version, "Job", "x"}), IsEmpty()) << version;
  EXPECT_THAT(JobPaths("ml", {"v1", "Secret", "x"}), IsEmpty());
}

TEST(StandsFor, ARayJobsClusterSaysIt) {
  const auto of = [](const char* kind, const char* status) {
    return StandsFor({"", kind, "x"}, json::parse(status));
  };
  EXPECT_EQ(of("RayJob", R"({"status": {"rayClusterName": "x-abc"}})")->name, "x-abc");
  EXPECT_EQ(
      of("RayService", R"({"status": {"activeServiceStatus": {"rayClusterName": "y"}}})")->kind,
      "RayCluster");
  EXPECT_EQ(of("RayJob", R"({"status": {"rayClusterName": "../../secrets/x"}})"), std::nullopt);
  EXPECT_EQ(of("RayJob", "{}"), std::nullopt);
  EXPECT_EQ(of("Job", R"({"status": {"rayClusterName": "x"}})"), std::nullopt);
}

}  // namespace
// The job's objects and pods as a controller of another project made them; see
// tests/controllers/record.py.
class RecordedJob : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    std::ifstream file(UnitDir() + "/../golden/jobs/" + GetParam() + ".json");
    recorded_ = json::parse(file);
  }

  absl::StatusOr<json> Read(const std::string& path) const {
    for (const json& object : recorded_["objects"]) {
      const std::vector<std::string> paths =
          JobPaths("ml", {object["apiVersion"], object["kind"], object["metadata"]["name"]});
      if (std::find(paths.begin(), paths.end(), path) != paths.end()) return object;
    }
    return absl::NotFoundError(path);
  }

  // As the API server's label selector does.
  std::vector<PodInfo> Pods(const PodQuery& query) const {
    std::vector<PodInfo> found;
    for (const json& object : recorded_["pods"]) {
      PodInfo pod = ParsePod(object);
      const std::size_t equals = query.selector.find('=');
      const auto label = pod.labels.find(query.selector.substr(0, equals));
      if (query.nothing || label == pod.labels.end() ||
          label->second != query.selector.substr(equals + 1))
        continue;
      found.push_back(std::move(pod));
    }
    return found;
  }

  json recorded_;
};

TEST_P(RecordedJob, ItsWorkersAreFound) {
  const json& ref = recorded_["jobRef"];
  TargetSpec target;
  target.job = kube::JobRef{ref.value("apiVersion", ""), ref["kind"], ref["name"]};
  const absl::StatusOr<Shape> described =
      DescribeJob("ml", *target.job, [this](const std::string& path) { return Read(path); });
  ASSERT_TRUE(described.ok()) << described.status();
  const Shape& shape = *described;
  const absl::StatusOr<PodQuery> query = QueryFor(target, &shape);
  ASSERT_TRUE(query.ok()) << query.status();
  const std::vector<PodInfo> pods = Pods(*query);
  const Selection selection = SelectTargets(target, *query, pods, &shape);
  EXPECT_EQ(selection.expected, recorded_["workers"].get<std::size_t>()) << shape.unknown;
  EXPECT_EQ(selection.suspended, recorded_["pods"].empty());
  EXPECT_EQ(selection.present, recorded_["pods"].empty() ? 0 : *selection.expected);
  for (const auto& [ending, rank] : recorded_["ranks"].items()) {
    const auto found = std::find_if(selection.targets.begin(), selection.targets.end(),
                                    [&ending = ending](const capture::Target& worker) {
                                      return worker.pod.find(ending) != std::string::npos;
                                    });
    ASSERT_NE(found, selection.targets.end()) << ending;
    EXPECT_EQ(found->rank, rank.get<int>()) << ending;
  }
}

std::vector<std::string> RecordedJobs() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(UnitDir() + "/../golden/jobs"))
    names.push_back(entry.path().stem());
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Controllers, RecordedJob, testing::ValuesIn(RecordedJobs()),
                         [](const auto& recording) {
                           std::string name = recording.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace strobe::job
