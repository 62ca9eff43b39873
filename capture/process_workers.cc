#include "capture/process_workers.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "capture/roles.h"
#include "common/base/strings.h"
#include "common/protocol/chosen_ranks.h"

namespace strobe::capture {
namespace {

// What all workers of a pod have in common: without its report and its ranks, because a hostile
// sidecar makes both as large as it may, and each worker would have a copy.
WorkerResult CommonOf(const WorkerResult& pod) {
  WorkerResult common = pod;
  common.report.Clear();
  common.ranks.clear();
  return common;
}

// The worker that is one process of `pod`.
WorkerResult WorkerOf(const WorkerResult& pod, const WorkerResult& common,
                      const v1::ProcessRank& rank) {
  WorkerResult worker = common;
  worker.target.name = StrCat(pod.target.name, "/", rank.local_rank());
  worker.target.file = StrCat(pod.target.file, ".", rank.local_rank());
  worker.local_rank = static_cast<int>(rank.local_rank());
  worker.ranks = {rank};
  return worker;
}

// What was put before the message of the pod's last report; see PodEvidence.
std::string EvidenceOf(const WorkerResult& pod) {
  const std::string& told = pod.report.message();
  return pod.message.ends_with(told) ? pod.message.substr(0, pod.message.size() - told.size()) : "";
}

bool IsWanted(const Target& target, const v1::ProcessRank& rank) {
  const ChosenRanks chosen{target.ranks, target.local_ranks};
  return chosen.Has(rank.has_rank() ? std::optional(rank.rank()) : std::nullopt,
                    rank.local_rank_assumed() ? std::nullopt : std::optional(rank.local_rank()));
}

void Split(const WorkerResult& pod, std::vector<WorkerResult>& workers) {
  const bool lost = pod.report.url().empty() && pod.ranks.size() > 1;
  if (pod.report.workers_size() == 0 && !lost) return workers.push_back(pod);
  const WorkerResult common = CommonOf(pod);
  for (const v1::Report& report : pod.report.workers()) {
    WorkerResult& worker = workers.emplace_back(WorkerOf(pod, common, report.rank()));
    // What the operator knows of the pod, such as that it is lost, is true of all its processes.
    if (pod.outcome == static_cast<Outcome>(pod.report.outcome())) {
      worker.outcome = static_cast<Outcome>(report.outcome());
      worker.message =
          worker.outcome == Outcome::kOk ? "" : StrCat(EvidenceOf(pod), report.message());
    }
    worker.report = report;
    if (pod.report.has_job()) *worker.report.mutable_job() = pod.report.job();
  }
  if (pod.report.workers_size() > 0) return;
  const std::size_t before = workers.size();
  v1::Report report = pod.report;
  for (const v1::ProcessRank& rank : pod.ranks) {
    if (!IsWanted(pod.target, rank)) continue;
    workers.push_back(WorkerOf(pod, common, rank));
    workers.back().report = report;
    report.clear_processes();  // The first worker keeps the pod's, for the same reason.
  }
  if (workers.size() == before) workers.push_back(pod);
}

// The places that the pod's processes told, by local rank.
std::map<std::uint32_t, v1::ProcessRank> PlacesOf(std::span<const WorkerResult> processes) {
  std::map<std::uint32_t, v1::ProcessRank> places;
  for (const WorkerResult& process : processes) {
    if (process.report.has_rank())
      places.emplace(process.report.rank().local_rank(), process.report.rank());
    else if (process.ranks.size() == 1)
      places.emplace(process.ranks.front().local_rank(), process.ranks.front());
  }
  return places;
}

v1::ProcessRank NumberedRank(std::uint32_t local_rank, std::optional<std::int64_t> rank) {
  v1::ProcessRank place;
  place.set_local_rank(local_rank);
  if (rank) place.set_rank(static_cast<std::uint32_t>(*rank));
  return place;
}

// The chosen ranks that none of the processes has.
std::vector<v1::ProcessRank> MissingChosen(const Target& target,
                                           std::map<std::uint32_t, v1::ProcessRank> there) {
  std::vector<v1::ProcessRank> missing;
  if (there.empty()) return missing;
  const std::optional<std::int64_t> first = FirstRank(there);
  for (const std::uint32_t rank : target.ranks) {
    const bool told = std::any_of(there.begin(), there.end(), [rank](const auto& place) {
      return place.second.has_rank() && place.second.rank() == rank;
    });
    if (told || missing.size() == kMaxWorkersOfPod) continue;
    std::uint32_t number = first && rank >= *first ? rank - static_cast<std::uint32_t>(*first) : 0;
    while (there.contains(number)) ++number;
    missing.push_back(there.emplace(number, NumberedRank(number, rank)).first->second);
  }
  return missing;
}

// The processes up to `count` that are not `there`. `unplaced` processes told no place.
std::vector<v1::ProcessRank> MissingOf(const Target& target, std::uint32_t count,
                                       const std::map<std::uint32_t, v1::ProcessRank>& there,
                                       std::size_t unplaced) {
  std::vector<v1::ProcessRank> missing;
  const bool assumed = std::any_of(there.begin(), there.end(), [](const auto& place) {
    return place.second.local_rank_assumed();
  });
  if (!target.processes_annotated && (there.empty() || assumed)) return missing;
  // Launchers number a job's processes pod by pod, so assumed local ranks begin at a multiple.
  const std::uint32_t begin = assumed ? there.begin()->first / count * count : 0;
  const std::optional<std::int64_t> first = there.empty() ? std::nullopt : FirstRank(there);
  for (std::uint32_t i = 0; i < count && there.size() + unplaced + missing.size() < count; ++i) {
    const std::uint32_t number = begin + i;
    if (there.contains(number) || (there.empty() && i < unplaced)) continue;
    const v1::ProcessRank place =
        NumberedRank(number, first ? std::optional(*first + number) : std::nullopt);
    if (IsWanted(target, place)) missing.push_back(place);
  }
  return missing;
}

// Adds the processes that the pod should run and that are not among `workers`, of which those from
// `begin` on are the pod's.
void AddMissingProcesses(const WorkerResult& pod, std::size_t begin,
                         std::vector<WorkerResult>& workers) {
  const Target& target = pod.target;
  if (target.pod.empty() || pod.outcome == Outcome::kCancelled) return;
  const auto there = PlacesOf(std::span(workers).subspan(begin));
  const auto count =
      static_cast<std::uint32_t>(std::min(target.expected_processes, kMaxWorkersOfPod));
  const v1::Report& report = pod.report;
  const std::size_t rows =
      static_cast<std::size_t>(report.processes_size()) + report.processes_left_out();
  const bool recorded_unplaced = there.empty() && !report.url().empty() && rows > 0;
  if (there.empty() && !recorded_unplaced) return;
  const std::vector<v1::ProcessRank> missing =
      target.ranks.empty() ? MissingOf(target, count, there, recorded_unplaced ? rows : 0)
                           : MissingChosen(target, there);
  const WorkerResult common = CommonOf(pod);
  for (const v1::ProcessRank& place : missing) {
    WorkerResult& worker = workers.emplace_back(WorkerOf(pod, common, place));
    worker.armed = false;
    worker.sources.clear();
    worker.target.rank = place.has_rank() ? static_cast<int>(place.rank()) : -1;
    worker.outcome = Outcome::kWorkerMissing;
    worker.message =
        StrCat(target.ranks.empty()
                   ? StrCat("the pod should run ", target.expected_processes, " processes, as its ",
                            target.processes_annotated ? "annotation strobe.dev/processes"
                                                       : "container's command",
                            " says")
                   : std::string("this rank was asked for, and its pod runs others"),
               "; this one has neither announced itself nor the agent: it may still import its "
               "framework, or Strobe's part could not start in it");
  }
}

// The rank that the worker's process told; -1 if it told none.
int ReportedRank(const WorkerResult& worker) {
  if (worker.report.has_rank() && worker.report.rank().has_rank())
    return static_cast<int>(worker.report.rank().rank());
  const bool told = worker.ranks.size() == 1 && worker.ranks.front().has_rank();
  return told ? static_cast<int>(worker.ranks.front().rank()) : -1;
}

// Ranks of processes and of pods do not count the same things, so only one kind is kept for the
// workers of a role.
void UseReportedRanks(std::vector<WorkerResult>& workers) {
  std::set<std::string> differ;
  for (const WorkerResult& worker : workers) {
    if (ReportedRank(worker) >= 0 && ReportedRank(worker) != worker.target.rank)
      differ.insert(worker.target.role);
  }
  for (WorkerResult& worker : workers) {
    if (differ.contains(worker.target.role)) worker.target.rank = ReportedRank(worker);
  }
}

}  // namespace

std::vector<v1::ProcessRank> RanksOf(const v1::DescribeResponse& description) {
  std::map<std::uint32_t, v1::ProcessRank> told, assumed;
  for (const v1::Source& source : description.sources()) {
    for (const v1::ProcessRank& rank : source.ranks())
      (rank.local_rank_assumed() ? assumed : told).emplace(rank.local_rank(), rank);
  }
  std::vector<v1::ProcessRank> list;
  // Beside processes that tell their local rank, others are no workers of their own.
  for (auto& [local_rank, rank] : told.empty() ? assumed : told) {
    if (list.size() == kMaxWorkersOfPod) break;
    list.push_back(std::move(rank));
  }
  return list;
}

void SplitByProcess(std::vector<WorkerResult>& workers) {
  std::vector<WorkerResult> split;
  for (const WorkerResult& pod : workers) {
    const std::size_t begin = split.size();
    Split(pod, split);
    AddMissingProcesses(pod, begin, split);
  }
  TakeProcessRoles(split);
  ObserveRoles(split);
  UseReportedRanks(split);
  AssignGroups(split);
  workers = std::move(split);
}

}  // namespace strobe::capture
