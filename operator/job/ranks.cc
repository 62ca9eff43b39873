#include "operator/job/ranks.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "operator/base/names.h"

namespace strobe::job {
namespace {

using Ranks = std::vector<int>;
using Pods = std::vector<const PodInfo*>;

constexpr int kMaxRank = 1'000'000;  // Keeps products of numbers from labels far from overflow.

constexpr char kSliceVariable[] = "MEGASCALE_SLICE_ID", kTpuWorkerVariable[] = "TPU_WORKER_ID",
               kTpuHostsVariable[] = "TPU_WORKER_HOSTNAMES", kLwsSizeVariable[] = "LWS_GROUP_SIZE";
constexpr std::array<std::string_view, 5> kRankVariables = {"RANK", "NODE_RANK", "PET_NODE_RANK",
                                                            "JAX_PROCESS_ID", "PROCESS_ID"};
constexpr std::array<std::string_view, 4> kOtherVariables = {kSliceVariable, kTpuWorkerVariable,
                                                             kTpuHostsVariable, kLwsSizeVariable};

constexpr char kCompletionKey[] = "batch.kubernetes.io/job-completion-index";
constexpr char kPodIndexKey[] = "apps.kubernetes.io/pod-index";
constexpr char kReplicatedJobKey[] = "jobset.sigs.k8s.io/replicatedjob-name",
               kJobIndexKey[] = "jobset.sigs.k8s.io/job-index",
               kJobGlobalIndexKey[] = "jobset.sigs.k8s.io/job-global-index";
constexpr char kGroupIndexKey[] = "leaderworkerset.sigs.k8s.io/group-index",
               kWorkerIndexKey[] = "leaderworkerset.sigs.k8s.io/worker-index",
               kGroupSizeKey[] = "leaderworkerset.sigs.k8s.io/size";
constexpr char kReplicaTypeKey[] = "training.kubeflow.org/replica-type",
               kReplicaIndexKey[] = "training.kubeflow.org/replica-index",
               kJobRoleKey[] = "training.kubeflow.org/job-role";
constexpr char kVolcanoJobKey[] = "volcano.sh/job-name", kVolcanoTaskKey[] = "volcano.sh/task-spec",
               kVolcanoIndexKey[] = "volcano.sh/task-index";
constexpr char kRayNodeKey[] = "ray.io/node-type",
               kRayOriginKey[] = "ray.io/originated-from-cr-name";

constexpr std::array<std::string_view, 19> kRankKeys = {
    kube::kRankKey,    kube::kProcessesKey, kCompletionKey,     kPodIndexKey,   kube::kJobSetLabel,
    kReplicatedJobKey, kJobIndexKey,        kJobGlobalIndexKey, kGroupIndexKey, kWorkerIndexKey,
    kGroupSizeKey,     kReplicaTypeKey,     kReplicaIndexKey,   kJobRoleKey,    kVolcanoJobKey,
    kVolcanoTaskKey,   kVolcanoIndexKey,    kRayNodeKey,        kRayOriginKey};

template <typename List>
bool IsIn(const List& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

int ParseNumber(std::string_view text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= 0 &&
                 number <= kMaxRank
             ? number
             : -1;
}

const std::string* FindIn(const std::map<std::string, std::string>& values, std::string_view key) {
  const auto found = values.find(std::string(key));
  return found == values.end() ? nullptr : &found->second;
}

// The value of the label, or else of the annotation of that name: controllers differ in which they
// set.
const std::string* Written(const PodInfo& pod, std::string_view key) {
  const std::string* label = FindIn(pod.labels, key);
  return label != nullptr ? label : FindIn(pod.annotations, key);
}
int WrittenNumber(const PodInfo& pod, std::string_view key) {
  const std::string* text = Written(pod, key);
  return text == nullptr ? -1 : ParseNumber(*text);
}
std::string WrittenText(const PodInfo& pod, std::string_view key) {
  const std::string* text = Written(pod, key);
  return text == nullptr ? "" : *text;
}

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return text;
}

int Checked(std::int64_t rank) {
  return rank >= 0 && rank <= kMaxRank ? static_cast<int>(rank) : -1;
}

// The container of that name, or else the first one that trains; null if there is none.
const ContainerInfo* ContainerOf(const PodInfo& pod, const std::string& container) {
  const std::string& which =
      !container.empty() || pod.trainers.empty() ? container : pod.trainers.front();
  return FindContainer(pod, which);
}

const std::string* Variable(const PodInfo& pod, const std::string& container,
                            std::string_view name) {
  const ContainerInfo* info = ContainerOf(pod, container);
  return info == nullptr ? nullptr : FindIn(info->env, name);
}
int VariableNumber(const PodInfo& pod, const std::string& container, std::string_view name) {
  const std::string* text = Variable(pod, container, name);
  return text == nullptr ? -1 : ParseNumber(*text);
}

// TPU_WORKER_ID counts within one slice, so the sizes of the slices before it are added.
int TpuRank(const PodInfo& pod, const std::string& container) {
  const int worker = VariableNumber(pod, container, kTpuWorkerVariable);
  const int slice = VariableNumber(pod, container, kSliceVariable);
  if (worker < 0 || slice <= 0) return worker;
  const std::string* hosts = Variable(pod, container, kTpuHostsVariable);
  if (hosts == nullptr) return -1;
  const auto count = std::count(hosts->begin(), hosts->end(), ',') + 1;
  return worker < count ? Checked(std::int64_t{slice} * count + worker) : -1;
}

// How many pods that train come before replica `index` of `role`, by the job's own numbers. None
// for a role that it does not have, or that does not train.
std::optional<std::int64_t> PodsBefore(const Shape& shape, const std::string& role, int index) {
  std::int64_t before = 0;
  for (const Shape::Role& entry : shape.roles) {
    if (!entry.trains) continue;
    const auto pods = static_cast<std::int64_t>(entry.pods_per_replica);
    if (entry.name == role) return before + index * pods;
    before += static_cast<std::int64_t>(entry.replicas) * pods;
  }
  return std::nullopt;
}

Ranks JobSetRanksByShape(const Pods& pods, const Shape& shape) {
  Ranks ranks;
  for (const PodInfo* pod : pods) {
    const int index = WrittenNumber(*pod, kJobIndexKey), own = WrittenNumber(*pod, kCompletionKey);
    const auto before = PodsBefore(shape, WrittenText(*pod, kReplicatedJobKey), index);
    ranks.push_back(index < 0 || own < 0 || !before ? -1 : Checked(*before + own));
  }
  return ranks;
}

// Without the JobSet's own object the sizes of its jobs are counted from the pods. That needs all
// pods: a job without its last pod would look smaller than it is. So all jobs of a role must be
// equally large and without gaps, else no rank is known.
Ranks JobSetRanksByPods(const Pods& pods) {
  struct Job {
    std::string role{};
    std::set<int> own{};  // Completion indexes.
  };
  std::map<int, Job> jobs;  // By global index.
  std::map<std::string, int> sizes;
  for (const PodInfo* pod : pods) {
    const int job = WrittenNumber(*pod, kJobGlobalIndexKey);
    const int own = WrittenNumber(*pod, kCompletionKey);
    if (job < 0 || own < 0) continue;
    jobs[job].role = WrittenText(*pod, kReplicatedJobKey);
    jobs[job].own.insert(own);
    int& size = sizes[jobs[job].role];
    size = std::max(size, own + 1);
  }
  std::map<int, std::int64_t> before;
  std::int64_t total = 0;
  for (const auto& [number, job] : jobs) {
    const bool gap = number != static_cast<int>(before.size());
    if (gap || sizes[job.role] != static_cast<int>(job.own.size())) return Ranks(pods.size(), -1);
    before[number] = total;
    total += sizes[job.role];
  }
  Ranks ranks;
  for (const PodInfo* pod : pods) {
    const auto job = before.find(WrittenNumber(*pod, kJobGlobalIndexKey));
    const int own = WrittenNumber(*pod, kCompletionKey);
    ranks.push_back(job == before.end() || own < 0 ? -1 : Checked(job->second + own));
  }
  return ranks;
}

Ranks JobSetRanks(const Pods& pods, const Shape* shape) {
  std::set<std::string> sets;
  for (const PodInfo* pod : pods) {
    if (const std::string* name = Written(*pod, kube::kJobSetLabel)) sets.insert(*name);
  }
  if (sets.size() != 1) return Ranks(pods.size(), -1);
  if (shape == nullptr || shape->roles.empty()) return JobSetRanksByPods(pods);
  return JobSetRanksByShape(pods, *shape);
}

// The name that all pods have under the key; empty if it is not the same everywhere.
std::string SharedName(const Pods& pods, std::string_view key) {
  std::set<std::string> names;
  for (const PodInfo* pod : pods) names.insert(WrittenText(*pod, key));
  return names.size() == 1 ? *names.begin() : "";
}

// Volcano numbers the pods of each task. Without the job's own object that is enough for one task.
Ranks VolcanoRanks(const Pods& pods, const Shape* shape) {
  const bool shaped = shape != nullptr && !shape->roles.empty();
  Ranks ranks(pods.size(), -1);
  if (SharedName(pods, kVolcanoJobKey).empty() ||
      (!shaped && SharedName(pods, kVolcanoTaskKey).empty()))
    return ranks;
  for (std::size_t i = 0; i < pods.size(); ++i) {
    const int own = WrittenNumber(*pods[i], kVolcanoIndexKey);
    if (own < 0) continue;
    const std::optional<std::int64_t> rank =
        shaped ? PodsBefore(*shape, WrittenText(*pods[i], kVolcanoTaskKey), own) : own;
    if (rank) ranks[i] = Checked(*rank);
  }
  return ranks;
}

int LwsRank(const PodInfo& pod, const std::string& container) {
  const int group = WrittenNumber(pod, kGroupIndexKey), own = WrittenNumber(pod, kWorkerIndexKey);
  if (group < 0 || own < 0) return -1;
  int size = WrittenNumber(pod, kGroupSizeKey);
  if (size <= 0) size = VariableNumber(pod, container, kLwsSizeVariable);
  if (size <= 0) return group == 0 ? own : -1;
  return own < size ? Checked(std::int64_t{group} * size + own) : -1;
}

// Masters come before workers, as in the ranks that Kubeflow's operator assigns itself.
bool IsMaster(const std::string& role) { return role == "master" || role == "chief"; }

// What the shape says of the role: whether it trains; none if it has no such role.
std::optional<bool> Trains(const Shape* shape, const std::string& role) {
  if (shape == nullptr || role.empty()) return std::nullopt;
  for (const Shape::Role& entry : shape->roles) {
    if (Lower(entry.name) == role) return entry.trains;
  }
  return std::nullopt;
}

// An MPIJob's launcher that is a worker too comes first. mpi-operator 0.6 gives it no number and
// counts the others without it; later ones number it 0 and the others from 1.
bool IsFirstWithoutNumber(const PodInfo& pod, const Shape* shape) {
  return Lower(WrittenText(pod, kJobRoleKey)) == "launcher" &&
         WrittenNumber(pod, kReplicaIndexKey) < 0 && Trains(shape, "launcher").value_or(false);
}

Ranks KubeflowRanks(const Pods& pods, const Shape* shape) {
  std::int64_t masters = 0;
  if (shape != nullptr && !shape->roles.empty()) {
    for (const Shape::Role& role : shape->roles)
      masters += IsMaster(Lower(role.name)) ? static_cast<std::int64_t>(role.replicas) : 0;
  } else {
    std::set<std::string> seen;
    for (const PodInfo* pod : pods) {
      const std::string role = Lower(WrittenText(*pod, kReplicaTypeKey));
      if (IsMaster(role)) seen.insert(role + WrittenText(*pod, kReplicaIndexKey));
    }
    masters = static_cast<std::int64_t>(seen.size());
  }
  masters += std::count_if(pods.begin(), pods.end(), [shape](const PodInfo* pod) {
    return IsFirstWithoutNumber(*pod, shape);
  });
  Ranks ranks;
  for (const PodInfo* pod : pods) {
    const std::string role = Lower(WrittenText(*pod, kReplicaTypeKey));
    const int own = WrittenNumber(*pod, kReplicaIndexKey);
    const bool worker = role == "worker" || role.empty();
    if (IsFirstWithoutNumber(*pod, shape))
      ranks.push_back(0);
    else if (own < 0 || (!worker && !IsMaster(role)))
      ranks.push_back(-1);
    else
      ranks.push_back(Checked(worker ? masters + own : own));
  }
  return ranks;
}

template <typename Function>
Ranks ForEach(const Pods& pods, const Function& rank_of) {
  Ranks ranks;
  for (const PodInfo* pod : pods) ranks.push_back(rank_of(*pod));
  return ranks;
}

bool Lives(const PodInfo& pod) { return !pod.terminating && !HasEnded(pod); }

// How many of the living pods have a rank; none when two of them have the same.
std::optional<std::size_t> CountRanked(const Pods& pods, const Ranks& ranks) {
  std::set<int> seen;
  std::size_t known = 0;
  for (std::size_t i = 0; i < pods.size(); ++i) {
    if (ranks[i] < 0 || !Lives(*pods[i])) continue;
    if (!seen.insert(ranks[i]).second) return std::nullopt;
    ++known;
  }
  return known;
}

// Makes ranks unique: a pod that has ended loses its rank to the living pod that replaced it, and
// among ended pods the first one keeps it.
std::vector<PodRank> Unify(const Pods& pods, const Ranks& ranks) {
  std::vector<PodRank> unified(pods.size());
  std::set<int> living, taken;
  for (const bool lives : {true, false}) {
    for (std::size_t i = 0; i < pods.size(); ++i) {
      if (ranks[i] < 0 || Lives(*pods[i]) != lives) continue;
      if (lives) living.insert(ranks[i]);
      unified[i].replaced = !lives && living.count(ranks[i]) > 0;
      if (taken.insert(ranks[i]).second) unified[i].rank = ranks[i];
    }
  }
  return unified;
}

}  // namespace

bool IsRankVariable(std::string_view name) {
  return IsIn(kRankVariables, name) || IsIn(kOtherVariables, name);
}

bool IsRankKey(std::string_view key) { return IsIn(kRankKeys, key); }

std::vector<PodRank> AssignRanks(const std::vector<const PodInfo*>& pods,
                                 const std::string& container, const Shape* shape) {
  std::vector<std::function<Ranks()>> evidence;
  const auto each = [&](std::function<int(const PodInfo&)> rank_of) {
    evidence.push_back([&pods, rank_of = std::move(rank_of)] { return ForEach(pods, rank_of); });
  };
  each([](const PodInfo& pod) { return WrittenNumber(pod, kube::kRankKey); });
  for (const std::string_view name : kRankVariables) {
    each([&container, name](const PodInfo& pod) { return VariableNumber(pod, container, name); });
  }
  each([&container](const PodInfo& pod) { return TpuRank(pod, container); });
  evidence.push_back([&] { return JobSetRanks(pods, shape); });
  evidence.push_back([&] { return VolcanoRanks(pods, shape); });
  each([&container](const PodInfo& pod) { return LwsRank(pod, container); });
  evidence.push_back([&] { return KubeflowRanks(pods, shape); });
  each([](const PodInfo& pod) { return WrittenNumber(pod, kCompletionKey); });
  each([](const PodInfo& pod) { return WrittenNumber(pod, kPodIndexKey); });

  const auto living = static_cast<std::size_t>(
      std::count_if(pods.begin(), pods.end(), [](const PodInfo* pod) { return Lives(*pod); }));
  Ranks best(pods.size(), -1);
  std::size_t most = 0;
  for (const auto& kind : evidence) {
    Ranks ranks = kind();
    const std::optional<std::size_t> known = CountRanked(pods, ranks);
    if (!known || *known <= most) continue;
    best = std::move(ranks);
    most = *known;
    if (most == living) break;
  }
  return Unify(pods, best);
}

std::size_t ProcessesOf(const PodInfo& pod, const std::string& container) {
  if (const int told = WrittenNumber(pod, kube::kProcessesKey); told > 0)
    return static_cast<std::size_t>(told);
  const ContainerInfo* info = ContainerOf(pod, container);
  return info == nullptr ? 1 : std::max<std::size_t>(info->processes, 1);
}

ExpectedProcesses ExpectedProcessesOf(const PodInfo& pod, const std::string& container) {
  if (const int told = WrittenNumber(pod, kube::kProcessesKey); told > 0) {
    // The annotation counts the processes of all containers that train.
    if (!container.empty() && pod.trainers.size() > 1) return {};
    return {.count = static_cast<std::size_t>(told), .annotated = true};
  }
  const ContainerInfo* info = ContainerOf(pod, container);
  return {.count = info == nullptr ? 0 : info->certain_processes};
}

bool OnlyCoordinates(const PodInfo& pod, const Shape* shape) {
  for (const char* key : {kReplicatedJobKey, kVolcanoTaskKey, kReplicaTypeKey, kJobRoleKey}) {
    if (const std::optional<bool> trains = Trains(shape, Lower(WrittenText(pod, key))))
      return !*trains;
  }
  constexpr std::array<std::string_view, 4> kRoles = {"launcher", "ps", "evaluator", "scheduler"};
  for (const char* key : {kReplicaTypeKey, kJobRoleKey}) {
    const std::string role = Lower(WrittenText(pod, key));
    if (std::find(kRoles.begin(), kRoles.end(), role) != kRoles.end()) return true;
  }
  const std::string* ray = Written(pod, kRayNodeKey);
  if (ray != nullptr) return *ray != "worker";
  return Written(pod, kRayOriginKey) != nullptr;  // The pod that submits a RayJob.
}

}  // namespace strobe::job
