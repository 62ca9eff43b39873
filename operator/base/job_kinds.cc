#include "operator/base/job_kinds.h"

#include <algorithm>
#include <array>

#include "common/base/strings.h"
#include "operator/base/names.h"

namespace strobe::kube {
namespace {

using FoundBy = JobKind::Pods;

constexpr std::string_view kCompletionLabel = "batch.kubernetes.io/job-name",
                           kKubeflowLabel = "training.kubeflow.org/job-name";

constexpr JobKind Kubeflow(std::string_view kind, std::string_view plural,
                           std::string_view versions = "v1") {
  return {.kind = kind,
          .group = "kubeflow.org",
          .read_group = "kubeflow.org",
          .versions = versions,
          .plural = plural,
          .pods = FoundBy::kLabelled,
          .label = kKubeflowLabel};
}

// The labels are those that the kinds' controllers write; tests/golden/jobs has pods that they
// made.
constexpr std::array<JobKind, 19> kKinds = {{
    {"Job", "batch", "batch", "v1", "jobs", FoundBy::kLabelled, kCompletionLabel},
    {"Job", "batch.volcano.sh", "batch.volcano.sh", "v1alpha1", "jobs", FoundBy::kLabelled,
     "volcano.sh/job-name"},
    {"StatefulSet", "apps", "apps", "v1", "statefulsets", FoundBy::kOwned},
    {"ReplicaSet", "apps", "apps", "v1", "replicasets", FoundBy::kOwned},
    {"DaemonSet", "apps", "apps", "v1", "daemonsets", FoundBy::kOwned},
    {"Deployment", "apps", "apps", "v1", "deployments", FoundBy::kOfReplicaSets},
    {"JobSet", "jobset.x-k8s.io", "jobset.x-k8s.io", "v1alpha2", "jobsets", FoundBy::kLabelled,
     kJobSetLabel},
    // A TrainJob runs as a JobSet of the same name, whose labels its pods have.
    {"TrainJob", "trainer.kubeflow.org", "jobset.x-k8s.io", "v1alpha2", "jobsets",
     FoundBy::kLabelled, kJobSetLabel},
    {"LeaderWorkerSet", "leaderworkerset.x-k8s.io", "leaderworkerset.x-k8s.io", "v1",
     "leaderworkersets", FoundBy::kLabelled, "leaderworkerset.sigs.k8s.io/name"},
    Kubeflow("PyTorchJob", "pytorchjobs"),
    Kubeflow("TFJob", "tfjobs"),
    Kubeflow("JAXJob", "jaxjobs"),
    Kubeflow("MPIJob", "mpijobs", "v2beta1,v1"),
    Kubeflow("XGBoostJob", "xgboostjobs"),
    Kubeflow("PaddleJob", "paddlejobs"),
    {"RayCluster", "ray.io", "ray.io", "v1,v1alpha1", "rayclusters", FoundBy::kLabelled,
     "ray.io/cluster"},
    // Their pods carry the name of the RayCluster only.
    {"RayJob", "ray.io", "ray.io", "v1,v1alpha1", "rayjobs", FoundBy::kOfAnother},
    {"RayService", "ray.io", "ray.io", "v1,v1alpha1", "rayservices", FoundBy::kOfAnother},
    // Kueue marks pods with their Workload only for topology-aware scheduling. The job that the
    // Workload queues owns it.
    {"Workload", "kueue.x-k8s.io", "kueue.x-k8s.io", "v1beta2,v1beta1", "workloads",
     FoundBy::kOfAnother},
}};

std::string_view GroupOf(std::string_view api_version) {
  return api_version.substr(0, api_version.find('/'));
}

}  // namespace

std::span<const JobKind> AllJobKinds() { return kKinds; }

const JobKind* FindJobKind(const JobRef& job) {
  const auto* const found =
      std::find_if(kKinds.begin(), kKinds.end(), [&job](const JobKind& entry) {
        return entry.kind == job.kind &&
               (job.api_version.empty() || entry.group == GroupOf(job.api_version));
      });
  return found == kKinds.end() ? nullptr : found;
}

bool OwnsPods(const JobRef& job, std::string_view kind, std::string_view name,
              std::string_view template_hash) {
  const JobKind* known = FindJobKind(job);
  if (known == nullptr || known->pods != JobKind::Pods::kOfReplicaSets)
    return kind == job.kind && name == job.name;
  return kind == "ReplicaSet" && !template_hash.empty() &&
         name == StrCat(job.name, "-", template_hash);
}

std::string UnknownJobKind(const JobRef& job) {
  std::string groups, kinds = "Pod";
  for (const JobKind& entry : kKinds) {
    if (entry.kind == job.kind) groups += StrCat(groups.empty() ? "" : " or ", entry.group);
    if (&entry == FindJobKind({"", std::string(entry.kind), ""})) kinds += StrCat(", ", entry.kind);
  }
  if (!groups.empty())
    return StrCat("target.jobRef.apiVersion: Strobe knows the kind ", job.kind, " of ", groups,
                  ", not of ", GroupOf(job.api_version), "; use target.selector for that kind");
  return StrCat("target.jobRef.kind ", job.kind, " is not known; use target.selector, or one of ",
                kinds);
}

}  // namespace strobe::kube
