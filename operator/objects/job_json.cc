#include "operator/objects/job_json.h"

#include <algorithm>
#include <array>

#include "common/base/strings.h"
#include "operator/objects/json_members.h"

namespace strobe::kube {
namespace {

using Json = nlohmann::json;
using Role = JobShape::Role;

constexpr std::array<JobKind, 17> kKinds = {{
    {"Job", "batch", "v1", "jobs"},
    {"StatefulSet", "apps", "v1", "statefulsets"},
    {"ReplicaSet", "apps", "v1", "replicasets"},
    {"DaemonSet", "apps", "v1", "daemonsets"},
    {"JobSet", "jobset.x-k8s.io", "v1alpha2", "jobsets"},
    // A TrainJob runs as a JobSet of the same name, whose labels its pods have.
    {"TrainJob", "jobset.x-k8s.io", "v1alpha2", "jobsets"},
    {"LeaderWorkerSet", "leaderworkerset.x-k8s.io", "v1", "leaderworkersets"},
    {"PyTorchJob", "kubeflow.org", "v1", "pytorchjobs"},
    {"TFJob", "kubeflow.org", "v1", "tfjobs"},
    {"JAXJob", "kubeflow.org", "v1", "jaxjobs"},
    {"MPIJob", "kubeflow.org", "v2beta1,v1", "mpijobs"},
    {"XGBoostJob", "kubeflow.org", "v1", "xgboostjobs"},
    {"PaddleJob", "kubeflow.org", "v1", "paddlejobs"},
    {"RayCluster", "ray.io", "v1,v1alpha1", "rayclusters"},
    {"RayJob", "ray.io", "v1,v1alpha1", "rayjobs"},
    {"RayService", "ray.io", "v1,v1alpha1", "rayservices"},
    {"Workload", "kueue.x-k8s.io", "v1beta2,v1beta1", "workloads"},
}};

bool IsTrue(const Json& object, const char* name) {
  const Json& value = Member(object, name);
  return value.is_boolean() && value.get<bool>();
}
// Reads a count. Implausible numbers become "too many".
std::size_t Count(const Json& object, const char* name, std::size_t otherwise) {
  const Json& value = Member(object, name);
  if (!value.is_number_integer()) return otherwise;
  if (!value.is_number_unsigned() && value.get<std::int64_t>() < 0) return otherwise;
  return static_cast<std::size_t>(
      std::min<std::uint64_t>(value.get<std::uint64_t>(), kMaxWorkers + 1));
}
const Json& Object(const Json& value) {
  static const Json kEmpty = Json::object();
  return value.is_object() ? value : kEmpty;
}
const Json& List(const Json& object, const char* name) {
  static const Json kEmpty = Json::array();
  const Json& value = Member(object, name);
  return value.is_array() ? value : kEmpty;
}

// The number of pods that a batch/v1 Job runs at the same time.
std::size_t PodsOfJob(const Json& spec) {
  const std::size_t parallelism = Count(spec, "parallelism", 1);
  // Without completions, the job is a work queue and runs up to `parallelism` pods until one
  // succeeds.
  return std::min(parallelism, Count(spec, "completions", parallelism));
}

JobShape ParseBatchJob(const Json& object) {
  const Json& spec = Member(object, "spec");
  const Json& status = Member(object, "status");
  JobShape shape{.of_running_pods = true};
  const std::size_t parallelism = Count(spec, "parallelism", 1);
  const std::size_t completions = Count(spec, "completions", parallelism);
  const std::size_t left = completions - std::min(completions, Count(status, "succeeded", 0));
  shape.roles.push_back({.replicas = std::min(parallelism, left)});
  shape.suspended = IsTrue(spec, "suspend") || parallelism == 0;
  return shape;
}

JobShape ParseJobSet(const Json& object) {
  const Json& spec = Member(object, "spec");
  JobShape shape{.suspended = IsTrue(spec, "suspend")};
  for (const Json& job : List(spec, "replicatedJobs")) {
    shape.roles.push_back({.name = TextOf(job, "name"),
                           .replicas = Count(job, "replicas", 1),
                           .pods_per_replica = PodsOfJob(Member(Member(job, "template"), "spec"))});
  }
  return shape;
}

JobShape ParseReplicas(const Json& object) {
  const std::size_t replicas = Count(Member(object, "spec"), "replicas", 1);
  return {.roles = {{.replicas = replicas}}, .suspended = replicas == 0};
}

JobShape ParseDaemonSet(const Json& object) {
  const Json& status = Member(object, "status");
  if (!Member(status, "desiredNumberScheduled").is_number_integer())
    return {.unknown = "the DaemonSet's status does not have the desired number of nodes yet"};
  return {.roles = {{.replicas = Count(status, "desiredNumberScheduled", 0)}}};
}

JobShape ParseLeaderWorkerSet(const Json& object) {
  const Json& spec = Member(object, "spec");
  const std::size_t replicas = Count(spec, "replicas", 1);
  return {.roles = {{.replicas = replicas,
                     .pods_per_replica = Count(Member(spec, "leaderWorkerTemplate"), "size", 1)}},
          .suspended = replicas == 0};
}

// Reads Kubeflow's jobs, such as "pytorchReplicaSpecs": {"Master": {...}, "Worker": {...}}.
JobShape ParseKubeflowJob(const Json& object) {
  const Json& spec = Member(object, "spec");
  JobShape shape{.suspended = IsTrue(Member(spec, "runPolicy"), "suspend")};
  for (const auto& [field, roles] : Object(spec).items()) {
    if (!field.ends_with("ReplicaSpecs") || !roles.is_object()) continue;
    for (const auto& [name, role] : roles.items()) {
      constexpr std::array<std::string_view, 5> kCoordinators = {"Launcher", "PS", "Evaluator",
                                                                 "Eval", "Scheduler"};
      shape.roles.push_back({.name = name,
                             .replicas = Count(role, "replicas", 1),
                             .trains = std::find(kCoordinators.begin(), kCoordinators.end(),
                                                 name) == kCoordinators.end()});
    }
  }
  if (shape.roles.empty()) shape.unknown = "the job has no ReplicaSpecs";
  return shape;
}

JobShape ParseRayCluster(const Json& object) {
  const Json& spec = Member(object, "spec");
  JobShape shape{.suspended = IsTrue(spec, "suspend")};
  shape.roles.push_back({.name = "head", .replicas = 1, .trains = false});
  for (const Json& group : List(spec, "workerGroupSpecs")) {
    if (IsTrue(group, "suspend")) continue;
    // The autoscaler also writes the desired number into replicas, within these bounds.
    const std::size_t most = Count(group, "maxReplicas", kMaxWorkers + 1);
    const std::size_t least = std::min(Count(group, "minReplicas", 0), most);
    shape.roles.push_back({.name = TextOf(group, "groupName"),
                           .replicas = std::clamp(Count(group, "replicas", least), least, most),
                           .pods_per_replica = Count(group, "numOfHosts", 1)});
  }
  return shape;
}

JobShape ParseWorkload(const Json& object) {
  JobShape shape;
  for (const Json& set : List(Member(object, "spec"), "podSets"))
    shape.roles.push_back({.name = TextOf(set, "name"), .replicas = Count(set, "count", 1)});
  const Json& active = Member(Member(object, "spec"), "active");
  shape.suspended = active.is_boolean() && !active.get<bool>();
  bool admitted = false;
  for (const Json& condition : List(Member(object, "status"), "conditions")) {
    if (TextOf(condition, "type") == "Admitted") admitted = TextOf(condition, "status") == "True";
  }
  shape.suspended |= !admitted;
  return shape;
}

}  // namespace

const JobKind* FindJobKind(std::string_view kind) {
  const auto found = std::find_if(kKinds.begin(), kKinds.end(),
                                  [kind](const JobKind& entry) { return entry.kind == kind; });
  return found == kKinds.end() ? nullptr : &*found;
}

std::vector<std::string> JobPaths(const std::string& ns, const JobRef& job) {
  const JobKind* kind = FindJobKind(job.kind);
  if (kind == nullptr) return {};
  std::vector<std::string> versions = Split(kind->versions, ',');
  // A TrainJob's apiVersion is not that of its JobSet.
  if (!job.api_version.empty() && job.kind != "TrainJob") {
    const std::size_t slash = job.api_version.find('/');
    const std::string version = slash == std::string::npos ? "" : job.api_version.substr(slash + 1);
    const bool word = !version.empty() && std::all_of(version.begin(), version.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    });
    if (!word || job.api_version.substr(0, slash) != kind->group) return {};
    versions = {version};
  }
  std::vector<std::string> paths;
  for (const std::string& version : versions) {
    paths.push_back(StrCat("/apis/", kind->group, "/", version, "/namespaces/", ns, "/",
                           kind->plural, "/", job.name));
  }
  return paths;
}

JobShape ParseJob(std::string_view kind, const Json& object) {
  JobShape shape = kind == "Job"                                   ? ParseBatchJob(object)
                   : kind == "JobSet" || kind == "TrainJob"        ? ParseJobSet(object)
                   : kind == "LeaderWorkerSet"                     ? ParseLeaderWorkerSet(object)
                   : kind == "DaemonSet"                           ? ParseDaemonSet(object)
                   : kind == "RayCluster"                          ? ParseRayCluster(object)
                   : kind == "Workload"                            ? ParseWorkload(object)
                   : kind == "StatefulSet" || kind == "ReplicaSet" ? ParseReplicas(object)
                   : kind.ends_with("Job") && kind != "RayJob"
                       ? ParseKubeflowJob(object)
                       : JobShape{.unknown = StrCat("a ", kind, " does not define its size")};
  if (shape.unknown.empty() && shape.roles.empty())
    shape.unknown = StrCat("the ", kind, " defines no pods");
  return shape;
}

std::optional<JobRef> StandsFor(const JobRef& job, const Json& object) {
  const Json& status = Member(object, "status");
  std::string name;
  if (job.kind == "RayJob") name = TextOf(status, "rayClusterName");
  if (job.kind == "RayService")
    name = TextOf(Member(status, "activeServiceStatus"), "rayClusterName");
  // The name comes from a status, whose writer must not choose what else the operator reads.
  const bool safe = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
  if (!safe) return std::nullopt;
  return JobRef{.api_version = "", .kind = "RayCluster", .name = name};
}

}  // namespace strobe::kube
