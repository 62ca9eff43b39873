#include "operator/job/targets.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "common/base/strings.h"
#include "common/text/ip_text.h"
#include "common/text/safe_text.h"
#include "operator/base/label_selector.h"
#include "operator/base/names.h"
#include "operator/job/pod_roles.h"
#include "operator/job/ranks.h"

namespace strobe::job {
namespace {

// The address in gRPC's syntax. With several ports it is a list of addresses, of which the first
// one that answers as this pod's sidecar is used.
std::string AddressOf(const PodInfo& pod) {
  const bool v6 = pod.ip.find(':') != std::string::npos;
  const std::string host = HostBeforePort(pod.ip);
  if (pod.other_ports.empty()) return StrCat(host, ":", pod.sidecar_port);
  std::string addresses = StrCat(v6 ? "ipv6:" : "ipv4:", host, ":", pod.sidecar_port);
  for (const int port : pod.other_ports) addresses += StrCat(",", host, ":", port);
  return addresses;
}

void Cannot(Outcome outcome, std::string message, capture::Target& target) {
  target.outcome = outcome;
  target.message = std::move(message);
}

std::string Names(const std::vector<ContainerInfo>& containers) {
  std::vector<std::string> names;
  for (const ContainerInfo& container : containers) names.push_back(container.name);
  return names.empty() ? "none" : Join(names, ", ");
}

// Sets the target's containers and the planes that they must show. Returns false, with the target's
// outcome set, when the wanted container cannot be recorded.
bool ChooseContainer(const PodInfo& pod, const std::string& wanted, capture::Target& target) {
  target.container = wanted.empty() ? Join(pod.trainers, ",") : wanted;
  if (wanted.empty()) {
    for (const std::string& name : pod.trainers) {
      const ContainerInfo* container = FindContainer(pod, name);
      if (container == nullptr) continue;
      target.planes.framework |= container->devices.planes.framework;
      target.planes.agent |= container->devices.planes.agent;
    }
    return true;
  }
  const ContainerInfo* container = FindContainer(pod, wanted);
  if (container == nullptr) {
    Cannot(Outcome::kWorkerMissing,
           StrCat("the pod has no container ", wanted, " (target.container); it has ",
                  Names(pod.containers)),
           target);
    return false;
  }
  target.planes = container->devices.planes;
  const bool trains =
      std::find(pod.trainers.begin(), pod.trainers.end(), wanted) != pod.trainers.end();
  if (pod.injected && !trains) {
    Cannot(Outcome::kSidecarMissing,
           StrCat("the pod's sidecar serves ", Join(pod.trainers, ", "), " and not container ",
                  wanted, " (target.container); name it in the annotation strobe.dev/containers"),
           target);
    return false;
  }
  // Unless told otherwise, the sidecar records the programs of all containers that train.
  if (!trains || pod.trainers.size() > 1) target.only_container = wanted;
  return true;
}

std::string WhyNoSidecar(const PodInfo& pod) {
  const auto told = pod.annotations.find(kube::kNotInjectedAnnotation);
  if (told != pod.annotations.end())
    return StrCat("the pod was not injected: ", CutUtf8(told->second, kube::kMaxNotInjectedBytes));
  if (pod.wants_injection) {
    return "the pod has the label strobe.dev/inject but no sidecar: the webhook was unavailable "
           "when the pod was created, or another webhook removed the sidecar";
  }
  return "the pod has no container strobe-sidecar with a port named strobe";
}

capture::Target MakeTarget(const PodInfo& pod, const TargetSpec& spec, int rank) {
  capture::Target target;
  target.name = target.pod = pod.name;
  target.pod_uid = pod.uid;
  target.node = pod.node;
  target.rank = rank;
  target.processes = ProcessesOf(pod, spec.container);
  const ExpectedProcesses expected = ExpectedProcessesOf(pod, spec.container);
  target.expected_processes = expected.count;
  target.processes_annotated = expected.annotated;
  target.local_ranks = spec.local_ranks;
  target.file = ToSafeName(pod.name, 240);
  PodRole role = RoleOf(pod);
  target.role = std::move(role.role);
  target.role_from = std::move(role.from);
  const bool container = ChooseContainer(pod, spec.container, target);
  if (HasEnded(pod)) {
    Cannot(Outcome::kUnreachable, "the pod has ended", target);
  } else if (!container) {
    return target;
  } else if (!pod.damage.empty()) {
    Cannot(Outcome::kSidecarMissing, pod.damage, target);
  } else if (pod.sidecar_port == 0) {
    Cannot(Outcome::kSidecarMissing, WhyNoSidecar(pod), target);
  } else if (pod.terminating) {
    Cannot(Outcome::kUnreachable, "the pod is being deleted", target);
    target.may_come = true;  // Another pod may take its place.
  } else if (pod.ip.empty()) {
    Cannot(Outcome::kUnreachable,
           StrCat("the pod is ", pod.phase.empty() ? "Pending" : pod.phase, " and ",
                  pod.unschedulable.empty() ? "has no address yet" : pod.unschedulable),
           target);
    target.may_come = true;
  } else {
    target.address = AddressOf(pod);
  }
  return target;
}

// A worker that has no pod. Its name contains a parenthesis, which no pod's name can.
capture::Target MissingTarget(std::string name, int rank, std::string message) {
  capture::Target target;
  target.file = ToSafeName(name, 240);
  target.name = std::move(name);
  target.rank = rank;
  Cannot(Outcome::kWorkerMissing, std::move(message), target);
  target.may_come = true;
  return target;
}

struct Members {
  std::vector<const PodInfo*> pods{};  // The pods that are workers of the job.
  std::size_t coordinators = 0;        // Pods whose role is only to coordinate.
  std::size_t finished = 0;            // Workers whose pods have succeeded; not among `pods`.
};

Members MembersOf(const TargetSpec& spec, const PodQuery& query, const std::vector<PodInfo>& pods,
                  const Shape* shape) {
  Members members;
  for (const PodInfo& pod : pods) {
    const auto hash = pod.labels.find(kube::kTemplateHashLabel);
    if (query.owner &&
        std::none_of(pod.owners.begin(), pod.owners.end(), [&](const PodInfo::Owner& owner) {
          return kube::OwnsPods(*query.owner, owner.kind, owner.name,
                                hash == pod.labels.end() ? "" : std::string_view(hash->second));
        })) {
      continue;
    }
    const bool coordinates = spec.job && query.names.empty() && OnlyCoordinates(pod, shape);
    const bool can_train = pod.sidecar_port != 0 || pod.wants_injection ||
                           std::any_of(pod.containers.begin(), pod.containers.end(),
                                       [](const auto& c) { return c.devices.accelerator; });
    if (coordinates && !can_train) continue;
    // A pod that the request names stays a target even if it has ended, with that as its outcome.
    if (HasEnded(pod) && query.names.empty()) {
      members.finished += pod.phase == "Succeeded" && !coordinates ? 1 : 0;
      continue;
    }
    members.pods.push_back(&pod);
    members.coordinators += coordinates ? 1 : 0;
  }
  return members;
}

void ExpectWorkers(const TargetSpec& spec, const PodQuery& query, const Members& members,
                   const Shape* shape, Selection& selection) {
  if (shape != nullptr) selection.suspended = shape->unknown.empty() && shape->suspended;
  if (spec.expected_workers > 0) {
    selection.expected = std::max(spec.expected_workers, query.names.size());
  } else if (!query.names.empty()) {
    selection.expected = query.names.size();
  } else if (shape == nullptr) {
    selection.not_known = "target.expectedWorkers is not set";
  } else if (const std::optional<std::size_t> workers = WorkersOf(*shape)) {
    const std::size_t finished = shape->of_running_pods ? 0 : members.finished;
    selection.expected = *workers - std::min(*workers, finished) + members.coordinators;
  } else {
    selection.not_known = !shape->unknown.empty()
                              ? shape->unknown
                              : StrCat("the job asks for more than ", kMaxWorkers);
  }
}

// Ranks below `expected` that no target has; empty unless every target has such a rank.
std::vector<int> FreeRanks(const std::vector<capture::Target>& targets, std::size_t expected) {
  std::set<int> free;
  for (std::size_t i = 0; i < expected; ++i) free.insert(static_cast<int>(i));
  for (const capture::Target& target : targets) {
    if (free.erase(target.rank) == 0) return {};
  }
  return {free.begin(), free.end()};
}

void AddMissing(const TargetSpec& spec, Selection& selection) {
  std::vector<capture::Target>& targets = selection.targets;
  if (!selection.expected || targets.size() >= *selection.expected) return;
  const std::string message =
      StrCat("the ", spec.job ? spec.job->kind : std::string("target"), " should have ",
             *selection.expected, " workers; ", selection.present, " of them have a pod");
  const std::vector<int> ranks = FreeRanks(targets, *selection.expected);
  const std::size_t missing = *selection.expected - targets.size();
  for (std::size_t i = 0; i < missing; ++i) {
    const int rank = ranks.empty() ? -1 : ranks[i];
    targets.push_back(MissingTarget(
        rank < 0 ? StrCat("(missing ", i + 1, ")") : StrCat("(rank ", rank, ")"), rank, message));
  }
}

void SortTargets(std::vector<capture::Target>& targets) {
  // Targets without a rank come last.
  std::stable_sort(targets.begin(), targets.end(),
                   [](const capture::Target& a, const capture::Target& b) {
                     const auto key = [](const capture::Target& target) {
                       return std::tuple(target.rank < 0, target.rank, target.pod.empty());
                     };
                     return key(a) != key(b) ? key(a) < key(b) : !a.pod.empty() && a.name < b.name;
                   });
}

// How many processes each pod of the job runs: launchers number the processes of a job pod by pod.
int ProcessesPerPod(const std::vector<capture::Target>& targets) {
  std::size_t most = 1;
  for (const capture::Target& target : targets) most = std::max(most, target.processes);
  return static_cast<int>(most);
}

void KeepRanks(const TargetSpec& spec, std::vector<capture::Target>& targets) {
  const bool known = std::any_of(targets.begin(), targets.end(),
                                 [](const capture::Target& target) { return target.rank >= 0; });
  const int processes = ProcessesPerPod(targets);
  std::vector<capture::Target> kept;
  std::map<int, std::size_t> places;  // Where the pod of a rank is in `kept`.
  for (const int rank : std::set<int>(spec.ranks.begin(), spec.ranks.end())) {
    const int pod = rank / processes;
    const auto found =
        std::find_if(targets.begin(), targets.end(),
                     [pod](const capture::Target& target) { return target.rank == pod; });
    if (found == targets.end()) {
      kept.push_back(MissingTarget(StrCat("(rank ", rank, ")"), rank,
                                   known || targets.empty()
                                       ? StrCat("no pod has rank ", pod)
                                       : "the ranks of these pods are not known"));
      continue;
    }
    const auto [place, first] = places.emplace(pod, kept.size());
    if (first) kept.push_back(*found);
    if (processes > 1) kept[place->second].ranks.push_back(static_cast<std::uint32_t>(rank));
  }
  targets = std::move(kept);
}

void KeepSample(const TargetSpec& spec, std::vector<capture::Target>& targets) {
  if (!spec.sample) return;
  if (!spec.ranks.empty()) return KeepRanks(spec, targets);
  if (spec.count == 0 || targets.size() <= spec.count) return;
  std::vector<capture::Target> kept;
  if (spec.rotation) {
    // Divides the workers into as many evenly spread groups as are needed. Every worker is in one
    // group, so each is recorded once in `groups` turns.
    const std::size_t groups = (targets.size() + spec.count - 1) / spec.count;
    for (std::size_t i = *spec.rotation % groups; i < targets.size(); i += groups)
      kept.push_back(std::move(targets[i]));
  } else {
    for (std::size_t i = 0; i < spec.count; ++i)
      kept.push_back(std::move(targets[i * targets.size() / spec.count]));
  }
  targets = std::move(kept);
}

// Whether the pods are replicas of a service: those of Deployments belong to their ReplicaSets.
bool AreReplicas(const std::vector<const PodInfo*>& pods) {
  return !pods.empty() && std::all_of(pods.begin(), pods.end(), [](const PodInfo* pod) {
    return std::any_of(pod->owners.begin(), pod->owners.end(),
                       [](const PodInfo::Owner& owner) { return owner.kind == "ReplicaSet"; });
  });
}

// Keeps some of the replicas that can be recorded, evenly spread, and not all unless there is only
// one. If none can be recorded, all stay and say why.
void KeepSomeReplicas(std::vector<capture::Target>& targets) {
  constexpr std::size_t kReplicas = 2;
  std::vector<capture::Target> usable;
  std::copy_if(targets.begin(), targets.end(), std::back_inserter(usable),
               [](const capture::Target& target) { return target.usable(); });
  if (usable.empty()) return;
  const std::size_t count = std::clamp<std::size_t>(usable.size() - 1, 1, kReplicas);
  targets.clear();
  for (std::size_t i = 0; i < count; ++i)
    targets.push_back(std::move(usable[i * usable.size() / count]));
}

// The target's name is what the request says of the worker's role, which counts before all others.
void TakeRole(const TargetSpec& spec, capture::Target& target) {
  target.role = spec.name;
  target.role_from = "request";
  target.file = ToSafeName(StrCat(spec.name, ".", target.file), 240);
  // Missing workers of several targets have equal names otherwise.
  if (target.pod.empty()) target.name = StrCat(spec.name, " ", target.name);
}

// See Selection::job.
std::string JobOf(const TargetSpec& spec, const std::vector<const PodInfo*>& pods) {
  if (spec.job) return StrCat(spec.job->kind, "/", spec.job->name);
  std::string job;
  for (const PodInfo* pod : pods) {
    if (pod->owners.size() != 1) return "";
    const std::string owner = StrCat(pod->owners[0].kind, "/", pod->owners[0].name);
    if (!job.empty() && owner != job) return "";
    job = owner;
  }
  return job;
}

}  // namespace

absl::StatusOr<PodQuery> QueryFor(const TargetSpec& target, const Shape* shape) {
  if (!target.job) return PodQuery{.selector = target.selector, .names = target.pods};
  if (shape != nullptr && !shape->pods.empty()) return PodQuery{.names = shape->pods};
  const bool other = shape != nullptr && shape->pods_of;
  const kube::JobRef& job = other ? *shape->pods_of : *target.job;
  if (job.kind == "Pod") return PodQuery{.names = {job.name}};
  const kube::JobKind* kind = kube::FindJobKind(job);
  if (kind == nullptr) return absl::InvalidArgumentError(kube::UnknownJobKind(job));
  switch (kind->pods) {
    case kube::JobKind::Pods::kLabelled:
      // The API server would refuse every list with such a selector.
      if (const absl::Status good = kube::CheckLabelValue(job.name); !good.ok()) {
        return absl::InvalidArgumentError(StrCat("target.jobRef.name: pods are found by the label ",
                                                 kind->label, ", and ", MessageOf(good)));
      }
      return PodQuery{.selector = StrCat(kind->label, "=", job.name)};
    case kube::JobKind::Pods::kOwned:
    case kube::JobKind::Pods::kOfReplicaSets:
      return PodQuery{.owner = job};
    case kube::JobKind::Pods::kOfAnother:
      return PodQuery{.nothing = true};
  }
  return PodQuery{.nothing = true};
}

Selection SelectTargets(const TargetSpec& spec, const PodQuery& query,
                        const std::vector<PodInfo>& pods, const Shape* shape) {
  Selection selection;
  const Members members = MembersOf(spec, query, pods, shape);
  selection.job = JobOf(spec, members.pods);
  ExpectWorkers(spec, query, members, shape, selection);
  const std::vector<PodRank> ranks = AssignRanks(members.pods, spec.container, shape);
  const auto living = static_cast<std::size_t>(
      std::count_if(members.pods.begin(), members.pods.end(),
                    [](const PodInfo* pod) { return !pod->terminating && !HasEnded(*pod); }));
  std::set<std::string> absent(query.names.begin(), query.names.end());
  std::vector<capture::Target>& targets = selection.targets;
  for (std::size_t i = 0; i < members.pods.size(); ++i) {
    const PodInfo& pod = *members.pods[i];
    absent.erase(pod.name);
    // A pod that is being deleted is not a worker any more once another pod has taken its place.
    const bool superseded =
        query.names.empty() && pod.terminating &&
        (ranks[i].replaced || (selection.expected && living >= *selection.expected));
    if (!superseded) targets.push_back(MakeTarget(pod, spec, ranks[i].rank));
  }
  selection.present = targets.size();
  for (const std::string& name : absent) {
    targets.push_back(MissingTarget(name, -1, "there is no such pod in this namespace"));
    targets.back().pod = name;
  }
  AddMissing(spec, selection);
  SortTargets(targets);
  if (spec.some_replicas && AreReplicas(members.pods)) KeepSomeReplicas(targets);
  KeepSample(spec, targets);
  if (!spec.name.empty()) {
    for (capture::Target& target : targets) TakeRole(spec, target);
  }
  return selection;
}

std::size_t Selection::usable() const {
  return static_cast<std::size_t>(
      std::count_if(targets.begin(), targets.end(),
                    [](const capture::Target& target) { return target.usable(); }));
}

std::size_t Selection::may_come() const {
  return static_cast<std::size_t>(
      std::count_if(targets.begin(), targets.end(),
                    [](const capture::Target& target) { return target.may_come; }));
}

std::string CountWords(const Selection& selection) {
  std::string words =
      selection.expected
          ? StrCat(selection.present, "/", *selection.expected, " workers are present")
          : StrCat(selection.present, selection.present == 1 ? " worker is" : " workers are",
                   " present; the expected number is not known: ", selection.not_known);
  if (selection.targets.size() < std::max(selection.present, selection.expected.value_or(0)))
    words += StrCat("; ", selection.targets.size(), " of them are selected");
  return words;
}

}  // namespace strobe::job
