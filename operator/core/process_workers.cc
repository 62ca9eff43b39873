#include "operator/core/process_workers.h"

#include <algorithm>
#include <map>
#include <utility>

#include "common/base/chosen_ranks.h"
#include "common/base/strings.h"

namespace strobe {
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

// The rank that the worker's process told; -1 if it told none.
int ToldRank(const WorkerResult& worker) {
  if (worker.report.has_rank() && worker.report.rank().has_rank())
    return static_cast<int>(worker.report.rank().rank());
  const bool told = worker.ranks.size() == 1 && worker.ranks.front().has_rank();
  return told ? static_cast<int>(worker.ranks.front().rank()) : -1;
}

// Ranks of processes and of pods do not count the same things, so only one kind is kept.
void UseToldRanks(std::vector<WorkerResult>& workers) {
  const bool differ = std::any_of(workers.begin(), workers.end(), [](const WorkerResult& worker) {
    return ToldRank(worker) >= 0 && ToldRank(worker) != worker.target.rank;
  });
  if (!differ) return;
  for (WorkerResult& worker : workers) worker.target.rank = ToldRank(worker);
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
  for (const WorkerResult& pod : workers) Split(pod, split);
  UseToldRanks(split);
  workers = std::move(split);
}

}  // namespace strobe
