#include "operator/job/shape.h"

#include <algorithm>
#include <array>

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "operator/base/json_fields.h"

namespace strobe::job {
namespace {

using Json = nlohmann::json;
using Role = Shape::Role;

bool IsTrue(const Json& object, const char* name) {
  const Json& value = kube::Member(object, name);
  return value.is_boolean() && value.get<bool>();
}
// Reads a count. Implausible numbers become "too many".
std::size_t Count(const Json& object, const char* name, std::size_t otherwise) {
  const Json& value = kube::Member(object, name);
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
  const Json& value = kube::Member(object, name);
  return value.is_array() ? value : kEmpty;
}

// The number of pods that a batch/v1 Job runs at the same time.
std::size_t PodsOfJob(const Json& spec) {
  const std::size_t parallelism = Count(spec, "parallelism", 1);
  // Without completions, the job is a work queue and runs up to `parallelism` pods until one
  // succeeds.
  return std::min(parallelism, Count(spec, "completions", parallelism));
}

Shape ParseBatchJob(const Json& object) {
  const Json& spec = kube::Member(object, "spec");
  const Json& status = kube::Member(object, "status");
  Shape shape{.of_running_pods = true};
  const std::size_t parallelism = Count(spec, "parallelism", 1);
  const std::size_t completions = Count(spec, "completions", parallelism);
  const std::size_t left = completions - std::min(completions, Count(status, "succeeded", 0));
  shape.roles.push_back({.replicas = std::min(parallelism, left)});
  shape.suspended = IsTrue(spec, "suspend") || parallelism == 0;
  return shape;
}

// Kubeflow Trainer marks the jobs of the JobSets that it makes with what they do: trainer, or fetch
// data and models before.
std::string StepOfTrainJob(const Json& replicated_job) {
  const Json& labels =
      kube::Member(kube::Member(kube::Member(replicated_job, "template"), "metadata"), "labels");
  return kube::TextOf(labels, "trainer.kubeflow.org/trainjob-ancestor-step");
}

Shape ParseJobSet(const Json& object) {
  const Json& spec = kube::Member(object, "spec");
  Shape shape{.suspended = IsTrue(spec, "suspend")};
  bool of_train_job = false;
  for (const Json& job : List(spec, "replicatedJobs"))
    of_train_job |= StepOfTrainJob(job) == "trainer";
  for (const Json& job : List(spec, "replicatedJobs")) {
    shape.roles.push_back(
        {.name = kube::TextOf(job, "name"),
         .replicas = Count(job, "replicas", 1),
         .pods_per_replica = PodsOfJob(kube::Member(kube::Member(job, "template"), "spec")),
         .trains = !of_train_job || StepOfTrainJob(job) == "trainer"});
  }
  return shape;
}

Shape ParseReplicas(const Json& object) {
  const std::size_t replicas = Count(kube::Member(object, "spec"), "replicas", 1);
  return {.roles = {{.replicas = replicas}}, .suspended = replicas == 0};
}

Shape ParseDaemonSet(const Json& object) {
  const Json& status = kube::Member(object, "status");
  if (!kube::Member(status, "desiredNumberScheduled").is_number_integer())
    return {.unknown = "the DaemonSet's status does not have the desired number of nodes yet"};
  return {.roles = {{.replicas = Count(status, "desiredNumberScheduled", 0)}}};
}

Shape ParseLeaderWorkerSet(const Json& object) {
  const Json& spec = kube::Member(object, "spec");
  const std::size_t replicas = Count(spec, "replicas", 1);
  return {
      .roles = {{.replicas = replicas,
                 .pods_per_replica = Count(kube::Member(spec, "leaderWorkerTemplate"), "size", 1)}},
      .suspended = replicas == 0};
}

// Reads Kubeflow's jobs, such as "pytorchReplicaSpecs": {"Master": {...}, "Worker": {...}}.
Shape ParseKubeflowJob(const Json& object) {
  const Json& spec = kube::Member(object, "spec");
  Shape shape{.suspended = IsTrue(kube::Member(spec, "runPolicy"), "suspend")};
  for (const auto& [field, roles] : Object(spec).items()) {
    if (!field.ends_with("ReplicaSpecs") || !roles.is_object()) continue;
    for (const auto& [name, role] : roles.items()) {
      constexpr std::array<std::string_view, 5> kCoordinators = {"Launcher", "PS", "Evaluator",
                                                                 "Eval", "Scheduler"};
      const bool coordinates =
          std::find(kCoordinators.begin(), kCoordinators.end(), name) != kCoordinators.end();
      const bool works_too = name == "Launcher" && IsTrue(spec, "runLauncherAsWorker");
      shape.roles.push_back({.name = name,
                             .replicas = Count(role, "replicas", 1),
                             .trains = !coordinates || works_too});
    }
  }
  if (shape.roles.empty()) shape.unknown = "the job has no ReplicaSpecs";
  return shape;
}

Shape ParseRayCluster(const Json& object) {
  const Json& spec = kube::Member(object, "spec");
  Shape shape{.suspended = IsTrue(spec, "suspend")};
  shape.roles.push_back({.name = "head", .replicas = 1, .trains = false});
  for (const Json& group : List(spec, "workerGroupSpecs")) {
    if (IsTrue(group, "suspend")) continue;
    // The autoscaler also writes the desired number into replicas, within these bounds.
    const std::size_t most = Count(group, "maxReplicas", kMaxWorkers + 1);
    const std::size_t least = std::min(Count(group, "minReplicas", 0), most);
    shape.roles.push_back({.name = kube::TextOf(group, "groupName"),
                           .replicas = std::clamp(Count(group, "replicas", least), least, most),
                           .pods_per_replica = Count(group, "numOfHosts", 1)});
  }
  return shape;
}

// Before a RayJob or RayService has a cluster, its own object says how large that will be.
Shape ParseRayOwner(const Json& object, const char* cluster_field, std::string_view kind) {
  const Json& spec = kube::Member(object, "spec");
  const Json& cluster = kube::Member(spec, cluster_field);
  Shape shape;
  if (cluster.is_object())
    shape = ParseRayCluster({{"spec", cluster}});
  else
    shape.unknown = StrCat("the ", kind, " has no RayCluster yet");
  shape.suspended = IsTrue(spec, "suspend");
  return shape;
}

// The name of the task that has this role in one of Volcano's plugins, whose arguments are such as
// "--master=launcher".
std::string TaskOf(const Json& arguments, std::string_view role) {
  const std::string flag = StrCat("--", role, "=");
  for (const Json& argument : arguments) {
    if (argument.is_string() && argument.get<std::string>().starts_with(flag))
      return argument.get<std::string>().substr(flag.size());
  }
  return std::string(role);
}

Shape ParseVolcanoJob(const Json& object) {
  struct PluginRole {
    const char *plugin, *role;
  };
  // A role has the task of its own name unless the plugin's arguments name another.
  constexpr std::array<PluginRole, 4> kCoordinators = {
      {{"mpi", "master"}, {"ray", "head"}, {"tensorflow", "ps"}, {"tensorflow", "evaluator"}}};
  const Json& spec = kube::Member(object, "spec");
  std::vector<std::string> coordinators;
  for (const auto& [plugin, role] : kCoordinators) {
    const Json& arguments = kube::Member(kube::Member(spec, "plugins"), plugin);
    if (arguments.is_array()) coordinators.push_back(TaskOf(arguments, role));
  }
  Shape shape;
  for (const Json& task : List(spec, "tasks")) {
    const std::string name = kube::TextOf(task, "name");
    shape.roles.push_back({.name = name,
                           .replicas = Count(task, "replicas", 1),
                           .trains = std::find(coordinators.begin(), coordinators.end(), name) ==
                                     coordinators.end()});
  }
  // Pending without pods: the queue has no room for it yet. Aborted: its user has suspended it.
  const Json& status = kube::Member(object, "status");
  const std::string phase = kube::TextOf(kube::Member(status, "state"), "phase");
  const bool waits = phase == "Pending" && Count(status, "pending", 0) == 0;
  shape.suspended = waits || phase == "Aborting" || phase == "Aborted";
  return shape;
}

const Json& Owners(const Json& object) {
  return List(kube::Member(object, "metadata"), "ownerReferences");
}

Shape ParseWorkload(const Json& object) {
  Shape shape;
  for (const Json& set : List(kube::Member(object, "spec"), "podSets"))
    shape.roles.push_back({.name = kube::TextOf(set, "name"), .replicas = Count(set, "count", 1)});
  const Json& active = kube::Member(kube::Member(object, "spec"), "active");
  shape.suspended = active.is_boolean() && !active.get<bool>();
  bool admitted = false;
  for (const Json& condition : List(kube::Member(object, "status"), "conditions")) {
    if (kube::TextOf(condition, "type") == "Admitted")
      admitted = kube::TextOf(condition, "status") == "True";
  }
  shape.suspended |= !admitted;
  for (const Json& owner : Owners(object)) {
    if (kube::TextOf(owner, "kind") == "Pod" && shape.pods.size() < kMaxWorkers)
      shape.pods.push_back(kube::TextOf(owner, "name"));
    else if (shape.unknown.empty())
      shape.unknown = StrCat("the Workload queues a ", kube::TextOf(owner, "kind"), " of ",
                             kube::TextOf(owner, "apiVersion"),
                             ", whose pods are not known; use target.selector");
  }
  return shape;
}

// The name comes from an object whose writer must not choose what else the operator reads.
bool IsSafeName(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  });
}

// The job that a Workload queues. A group of plain pods has none: its pods own the Workload
// together.
std::optional<kube::JobRef> QueuedBy(const Json& workload) {
  for (const Json& owner : Owners(workload)) {
    const kube::JobRef job{kube::TextOf(owner, "apiVersion"), kube::TextOf(owner, "kind"),
                           kube::TextOf(owner, "name")};
    if (kube::FindJobKind(job) != nullptr && job.kind != "Workload" && IsSafeName(job.name))
      return job;
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> JobPaths(const std::string& ns, const kube::JobRef& job) {
  const kube::JobKind* kind = kube::FindJobKind(job);
  if (kind == nullptr) return {};
  std::vector<std::string> versions = Split(kind->versions, ',');
  // A TrainJob's version is not that of its JobSet.
  if (!job.api_version.empty() && kind->group == kind->read_group) {
    const std::size_t slash = job.api_version.find('/');
    const std::string version = slash == std::string::npos ? "" : job.api_version.substr(slash + 1);
    const bool word = !version.empty() && std::all_of(version.begin(), version.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    });
    if (!word) return {};
    versions = {version};
  }
  std::vector<std::string> paths;
  for (const std::string& version : versions) {
    paths.push_back(StrCat("/apis/", kind->read_group, "/", version, "/namespaces/", ns, "/",
                           kind->plural, "/", job.name));
  }
  return paths;
}

Shape ParseJob(const kube::JobRef& job, const Json& object) {
  const kube::JobKind* known = kube::FindJobKind(job);
  const std::string_view kind = job.kind;
  Shape shape = known == nullptr ? Shape{.unknown = StrCat("a ", kind, " does not define its size")}
                : known->group == "batch.volcano.sh"     ? ParseVolcanoJob(object)
                : kind == "Job"                          ? ParseBatchJob(object)
                : kind == "JobSet" || kind == "TrainJob" ? ParseJobSet(object)
                : kind == "LeaderWorkerSet"              ? ParseLeaderWorkerSet(object)
                : kind == "DaemonSet"                    ? ParseDaemonSet(object)
                : kind == "RayCluster"                   ? ParseRayCluster(object)
                : kind == "RayJob"     ? ParseRayOwner(object, "rayClusterSpec", kind)
                : kind == "RayService" ? ParseRayOwner(object, "rayClusterConfig", kind)
                : kind == "Workload"   ? ParseWorkload(object)
                : kind == "StatefulSet" || kind == "ReplicaSet" || kind == "Deployment"
                    ? ParseReplicas(object)
                    : ParseKubeflowJob(object);
  if (shape.unknown.empty() && shape.roles.empty())
    shape.unknown = StrCat("the ", kind, " defines no pods");
  return shape;
}

std::optional<kube::JobRef> StandsFor(const kube::JobRef& job, const Json& object) {
  if (job.kind == "Workload") return QueuedBy(object);
  const Json& status = kube::Member(object, "status");
  std::string name;
  if (job.kind == "RayJob") name = kube::TextOf(status, "rayClusterName");
  if (job.kind == "RayService") {
    name = kube::TextOf(kube::Member(status, "activeServiceStatus"), "rayClusterName");
    if (name.empty())
      name = kube::TextOf(kube::Member(status, "pendingServiceStatus"), "rayClusterName");
  }
  if (!IsSafeName(name)) return std::nullopt;
  return kube::JobRef{.api_version = "", .kind = "RayCluster", .name = name};
}

absl::StatusOr<Shape> DescribeJob(const std::string& ns, const kube::JobRef& job,
                                  const ObjectReader& read) {
  kube::JobRef ref = job;
  Shape shape;
  // A Workload queues a RayJob, which has a RayCluster.
  for (int hops = 0; hops < 3; ++hops) {
    const std::string who = StrCat(ref.kind, " ", ns, "/", ref.name);
    const std::vector<std::string> paths = JobPaths(ns, ref);
    absl::StatusOr<Json> object = absl::NotFoundError("");
    for (const std::string& path : paths) {
      object = read(path);
      if (!absl::IsNotFound(object.status())) break;
    }
    if (paths.empty()) {
      shape.unknown = kube::UnknownJobKind(ref);
    } else if (absl::IsNotFound(object.status())) {
      shape.unknown = StrCat("there is no ", who, ", or its API is not installed");
    } else if (absl::IsPermissionDenied(object.status())) {
      shape.unknown = StrCat("the operator may not read ", who,
                             " (the chart's ClusterRole grants the verb get)");
    }
    if (!shape.unknown.empty()) return shape;
    RETURN_IF_ERROR(object.status());
    const std::optional<kube::JobRef> other = StandsFor(ref, *object);
    if (!other) {
      Shape found = ParseJob(ref, *object);
      found.pods_of = shape.pods_of;
      return found;
    }
    ref = *other;
    shape.pods_of = ref;
  }
  shape.unknown = StrCat(job.kind, " ", ns, "/", job.name, " has too many levels of references");
  return shape;
}

}  // namespace strobe::job
