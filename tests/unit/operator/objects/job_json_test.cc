#include "operator/objects/job_json.h"

#include <gmock/gmock.h>

namespace strobe::kube {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::optional<std::size_t> Workers(std::string_view kind, const char* object) {
  return WorkersOf(ParseJob(kind, json::parse(object)));
}
bool Suspended(std::string_view kind, const char* object) {
  return ParseJob(kind, json::parse(object)).suspended;
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
  const JobShape shape = ParseJob("JobSet", json::parse(kSet));
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
  EXPECT_THAT(ParseJob("XGBoostJob", json::parse(R"({"spec": {}})")).unknown,
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
      ParseJob(kind, json::parse(object));
  }
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
}  // namespace strobe::kube
