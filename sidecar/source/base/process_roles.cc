#include "sidecar/source/base/process_roles.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

namespace strobe::source {
namespace {

// What a hostile program tells of its parents may have no end.
constexpr std::size_t kMaxAncestors = 16;
constexpr char kLauncher[] =
    "it started processes of the job, and neither joined a process group nor told a step";
constexpr char kHelper[] =
    "a process that joined its process group started it, and it neither joined one nor told a step";

// A process with the announcements of its frameworks.
struct Process {
  std::vector<Announcement*> frameworks{};
  std::optional<std::size_t> parent{};  // Its position, if that announced itself too.
  bool joined = false, stepped = false, schedules = false;
  Rank job_rank{};

  const Announcement& first() const { return *frameworks.front(); }
  bool active() const { return joined || stepped; }
  bool trains() const {
    return std::any_of(frameworks.begin(), frameworks.end(),
                       [](const Announcement* one) { return one->trains; });
  }
};

std::vector<Process> ProcessesIn(std::vector<Announcement>& announcements) {
  std::vector<Process> processes;
  std::map<std::tuple<std::string, std::uint32_t, std::uint64_t>, std::size_t> positions;
  std::map<std::pair<std::string, std::uint32_t>, std::size_t> by_pid;
  for (Announcement& one : announcements) {
    const auto [at, is_new] =
        positions.emplace(std::tuple(one.container, one.pid, one.began), processes.size());
    if (is_new) processes.emplace_back();
    by_pid[{one.container, one.pid}] = at->second;
    Process& process = processes[at->second];
    process.frameworks.push_back(&one);
    process.job_rank = one.job_rank();
    process.joined = process.joined || one.joined;
    process.stepped = process.stepped || one.stepped;
    process.schedules = process.schedules || one.schedules;
  }
  for (Process& process : processes) {
    const auto parent = by_pid.find({process.first().container, process.first().parent_pid});
    if (parent != by_pid.end()) process.parent = parent->second;
  }
  return processes;
}

// Calls `visit` for the ancestors of a process, the nearest first.
template <typename Visit>
void ForAncestors(const std::vector<Process>& processes, const Process& process, Visit visit) {
  std::optional<std::size_t> at = process.parent;
  for (std::size_t i = 0; at && i < kMaxAncestors; ++i) {
    visit(*at);
    at = processes[*at].parent;
  }
}

// A scheduler of an inference server tells why those that run the model wait, and is a companion.
void LeaveOut(const char* why, Process& process) {
  if (process.active() || process.schedules) return;
  for (Announcement* one : process.frameworks) {
    if (!one->trains) continue;
    one->trains = false;
    one->why_not = why;
  }
}

void MarkLaunchersAndHelpers(std::vector<Process>& processes) {
  for (Process& process : processes) {
    if (process.joined)
      ForAncestors(processes, process, [&](std::size_t at) { LeaveOut(kLauncher, processes[at]); });
    else if (process.parent && processes[*process.parent].joined)
      LeaveOut(kHelper, process);
  }
}

bool AreEqual(const v1::ProcessRank& a, const v1::ProcessRank& b) {
  return a.local_rank() == b.local_rank() && a.has_rank() == b.has_rank() && a.rank() == b.rank();
}

// Whether the process has a rank in the job that no other process has. What several have, they
// inherited from the environment of the container. Processes that it started share its rank.
bool HasOwnRank(const std::vector<Process>& processes, std::size_t position) {
  const Process& process = processes[position];
  if (!process.job_rank) return false;
  return std::none_of(processes.begin(), processes.end(), [&](const Process& other) {
    if (&other == &process || !other.job_rank || !AreEqual(*other.job_rank, *process.job_rank) ||
        other.first().container != process.first().container)
      return false;
    bool descends = false;
    ForAncestors(processes, other, [&](std::size_t at) { descends = descends || at == position; });
    return !descends;
  });
}

Role RoleOf(const std::vector<Process>& processes, std::size_t position) {
  const Process& process = processes[position];
  if (process.active() || HasOwnRank(processes, position)) return Role::kWorker;
  const bool beside_workers =
      std::any_of(processes.begin(), processes.end(), [&](const Process& other) {
        return other.active() && other.trains() &&
               other.first().container == process.first().container;
      });
  return beside_workers ? Role::kCompanion : Role::kUnclear;
}

// The order of workers that tell equal ranks. Of texts with a number in them, the longer one has
// the larger number.
auto OrderOf(const Process& process) {
  const Announcement& one = process.first();
  const Rank& rank = process.job_rank;
  return std::tuple(rank->local_rank_assumed(), one.container, one.parent_pid, rank->rank(),
                    one.title.size(), one.title, one.began, one.pid);
}

// Whether two of the workers would share a trace; see GroupByRank.
bool AnyShare(const std::vector<const Process*>& workers) {
  std::set<std::uint32_t> numbers;
  bool any_told = false, any_assumed = false;
  for (const Process* worker : workers) {
    const Rank& rank = worker->job_rank;
    (rank->local_rank_assumed() ? any_assumed : any_told) = true;
    numbers.insert(rank->local_rank());
  }
  return numbers.size() < workers.size() || (any_told && any_assumed);
}

void SetNumber(const Process& process, std::uint32_t number) {
  for (Announcement* one : process.frameworks) one->number = number;
}

}  // namespace

void AssignRoles(std::vector<Announcement>& announcements) {
  std::vector<Process> processes = ProcessesIn(announcements);
  MarkLaunchersAndHelpers(processes);
  for (std::size_t i = 0; i < processes.size(); ++i) {
    const Role role = RoleOf(processes, i);
    for (Announcement* one : processes[i].frameworks) one->role = role;
  }
}

void NumberWorkers(std::vector<Announcement>& announcements) {
  const std::vector<Process> processes = ProcessesIn(announcements);
  std::vector<const Process*> workers, further;
  for (const Process& process : processes) {
    if (process.active() && process.trains() && process.job_rank) workers.push_back(&process);
  }
  if (!AnyShare(workers)) return;
  std::sort(workers.begin(), workers.end(),
            [](const Process* a, const Process* b) { return OrderOf(*a) < OrderOf(*b); });
  std::set<std::uint32_t> taken;
  for (const Process* worker : workers) {
    const std::uint32_t own = worker->job_rank->local_rank();
    if (taken.insert(own).second)
      SetNumber(*worker, own);
    else
      further.push_back(worker);
  }
  std::uint32_t next = 0;
  for (const Process* worker : further) {
    while (taken.contains(next)) ++next;
    taken.insert(next);
    SetNumber(*worker, next);
  }
}

}  // namespace strobe::source
