#include "operator/core/targets.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "collector/base/name_rules.h"
#include "collector/base/strings.h"

namespace strobe {
namespace {

struct JobLabel {
  std::string_view kind, label;
};

// Labels that the kinds' own controllers put on every pod.
constexpr std::array<JobLabel, 14> kJobLabels = {{
    {"Job", "batch.kubernetes.io/job-name"},
    {"JobSet", "jobset.sigs.k8s.io/jobset-name"},
    {"LeaderWorkerSet", "leaderworkerset.sigs.k8s.io/name"},
    {"PyTorchJob", "training.kubeflow.org/job-name"},
    {"TFJob", "training.kubeflow.org/job-name"},
    {"JAXJob", "training.kubeflow.org/job-name"},
    {"MPIJob", "training.kubeflow.org/job-name"},
    {"XGBoostJob", "training.kubeflow.org/job-name"},
    {"PaddleJob", "training.kubeflow.org/job-name"},
    {"TrainJob", "jobset.sigs.k8s.io/jobset-name"},
    {"RayCluster", "ray.io/cluster"},
    {"RayJob", "ray.io/originated-from-cr-name"},
    {"RayService", "ray.io/originated-from-cr-name"},
    {"Workload", "kueue.x-k8s.io/workload"},
}};
// Kinds that own their pods directly, found by owner reference.
constexpr std::array<std::string_view, 3> kDirectOwners = {"StatefulSet", "ReplicaSet",
                                                           "DaemonSet"};

constexpr std::array<std::string_view, 6> kRankLabels = {"batch.kubernetes.io/job-completion-index",
                                                         "leaderworkerset.sigs.k8s.io/worker-index",
                                                         "training.kubeflow.org/replica-index",
                                                         "apps.kubernetes.io/pod-index",
                                                         "jobset.sigs.k8s.io/job-index",
                                                         "strobe.dev/rank"};
constexpr std::array<std::string_view, 4> kRankVariables = {"JOB_COMPLETION_INDEX", "RANK",
                                                            "JAX_PROCESS_ID", "TPU_WORKER_ID"};

int ParseRank(const std::map<std::string, std::string>& values, std::string_view key) {
  const auto found = values.find(std::string(key));
  if (found == values.end()) return -1;
  int rank = -1;
  const std::string& text = found->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  return error == std::errc() && end == text.data() + text.size() && rank >= 0 ? rank : -1;
}

Target MakeTarget(const PodInfo& pod, const TargetSpec& spec) {
  Target target;
  target.name = target.pod = pod.name;
  target.pod_uid = pod.uid;
  target.container = spec.container.empty() ? pod.container : spec.container;
  target.rank = RankOf(pod);
  target.file = ToSafeName(pod.name, 240);
  target.expects_device = pod.accelerator;
  const auto cannot = [&target](Outcome outcome, std::string message) {
    target.outcome = outcome;
    target.message = std::move(message);
  };
  if (!pod.damage.empty())
    cannot(Outcome::kSidecarMissing, pod.damage);
  else if (pod.sidecar_port == 0)
    cannot(Outcome::kSidecarMissing,
           pod.wants_injection
               ? "the pod carries the label strobe.dev/inject but has no sidecar: the webhook was "
                 "away when it was created, or another webhook took the sidecar away"
               : "the pod has no container strobe-sidecar with a port named strobe");
  else if (pod.terminating)
    cannot(Outcome::kUnreachable, "the pod is being deleted");
  else if (pod.ip.empty())
    cannot(Outcome::kUnreachable, StrCat("the pod is ", pod.phase.empty() ? "Pending" : pod.phase,
                                         " and has no address yet"));
  else
    target.address = StrCat(pod.ip.find(':') == std::string::npos ? pod.ip : "[" + pod.ip + "]",
                            ":", pod.sidecar_port);
  return target;
}

void KeepSample(const TargetSpec& spec, std::vector<Target>& targets) {
  if (!spec.sample) return;
  if (!spec.ranks.empty()) {
    const std::set<int> ranks(spec.ranks.begin(), spec.ranks.end());
    std::erase_if(targets, [&](const Target& target) { return ranks.count(target.rank) == 0; });
    return;
  }
  if (spec.count == 0 || targets.size() <= spec.count) return;
  std::vector<Target> kept;
  for (std::size_t i = 0; i < spec.count; ++i)
    kept.push_back(std::move(targets[i * targets.size() / spec.count]));
  targets = std::move(kept);
}

}  // namespace

absl::StatusOr<PodQuery> QueryFor(const TargetSpec& target) {
  if (!target.job) return PodQuery{.selector = target.selector, .names = target.pods};
  const auto label = std::find_if(kJobLabels.begin(), kJobLabels.end(), [&](const JobLabel& entry) {
    return entry.kind == target.job->kind;
  });
  if (label != kJobLabels.end())
    return PodQuery{.selector = StrCat(label->label, "=", target.job->name)};
  if (target.job->kind == "Pod") return PodQuery{.names = {target.job->name}};
  if (std::find(kDirectOwners.begin(), kDirectOwners.end(), target.job->kind) !=
      kDirectOwners.end()) {
    return PodQuery{.owner = target.job};
  }
  std::string kinds = "Pod, StatefulSet, ReplicaSet, DaemonSet";
  for (const JobLabel& entry : kJobLabels) kinds += StrCat(", ", entry.kind);
  return absl::InvalidArgumentError(StrCat("target.jobRef.kind ", target.job->kind,
                                           " is not known; use target.selector, or one of ",
                                           kinds));
}

int RankOf(const PodInfo& pod) {
  for (const std::string_view key : kRankLabels) {
    for (const auto* values : {&pod.labels, &pod.annotations}) {
      if (const int rank = ParseRank(*values, key); rank >= 0) return rank;
    }
  }
  for (const std::string_view key : kRankVariables) {
    if (const int rank = ParseRank(pod.env, key); rank >= 0) return rank;
  }
  return -1;
}

std::vector<Target> SelectTargets(const TargetSpec& spec, const PodQuery& query,
                                  const std::vector<PodInfo>& pods) {
  std::set<std::string> missing(query.names.begin(), query.names.end());
  std::vector<Target> targets;
  for (const PodInfo& pod : pods) {
    missing.erase(pod.name);
    if (query.owner &&
        std::none_of(pod.owners.begin(), pod.owners.end(), [&](const PodInfo::Owner& owner) {
          return owner.kind == query.owner->kind && owner.name == query.owner->name;
        })) {
      continue;
    }
    const bool ended = pod.phase == "Succeeded" || pod.phase == "Failed";
    // A pod that was asked for by name is never passed over in silence.
    if (ended && query.names.empty()) continue;
    targets.push_back(MakeTarget(pod, spec));
    if (ended) {
      targets.back().outcome = Outcome::kUnreachable;
      targets.back().message = "the pod has ended";
    }
  }
  for (const std::string& name : missing) {
    Target target;
    target.name = target.pod = target.file = name;
    target.outcome = Outcome::kUnreachable;
    target.message = "there is no such pod in this namespace";
    targets.push_back(std::move(target));
  }
  std::sort(targets.begin(), targets.end(), [](const Target& a, const Target& b) {
    return a.rank != b.rank ? a.rank < b.rank : a.name < b.name;
  });
  KeepSample(spec, targets);
  return targets;
}

}  // namespace strobe
