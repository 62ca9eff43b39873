#include "sidecar/source/inproc/missing_processes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "common/base/strings.h"
#include "common/protocol/chosen_ranks.h"
#include "common/protocol/outcome.h"
#include "sidecar/source/agent/process_row.h"
#include "sidecar/source/base/process_ranks.h"
#include "sidecar/source/base/process_reports.h"

namespace strobe::source {
namespace {

using session::Recording;

bool IsOfContainer(const v1::CapturePlan& plan, const std::string& container) {
  return plan.container().empty() || plan.container() == container;
}

// How many processes the launcher of one container started; 0 if it is not known.
std::uint32_t StartedProcesses(const v1::CapturePlan& plan,
                               const std::vector<Announcement>& announced) {
  std::uint32_t most = 0;
  for (const Announcement& process : announced) {
    if (process.trains && !process.container.empty() && IsOfContainer(plan, process.container))
      most = std::max(most, process.local_world_size.value_or(0));
  }
  return std::min<std::uint32_t>(most, kMaxRankGroups);
}

void AddMissingRanks(const v1::CapturePlan& plan, const std::vector<Announcement>& announced,
                     std::vector<Recording>& recordings) {
  const std::uint32_t started = StartedProcesses(plan, announced);
  std::map<std::uint32_t, v1::ProcessRank> there;
  for (const Recording& recording : recordings) {
    if (recording.rank && !recording.rank->local_rank_assumed())
      there.emplace(recording.rank->local_rank(), *recording.rank);
  }
  if (plan.one_trace() || there.empty() || there.size() != recordings.size() ||
      there.size() >= started)
    return;
  const std::optional<std::int64_t> first = FirstRank(there);
  for (std::uint32_t local_rank = 0; local_rank < started; ++local_rank) {
    if (there.contains(local_rank)) continue;
    const Rank place =
        RankOf(first ? *first + local_rank : -1, local_rank, there.begin()->second.world_size());
    if (!IsWanted(plan, place)) continue;
    Recording& missing = recordings.emplace_back();
    missing.rank = place;
    missing.outcome = Outcome::kWorkerMissing;
    missing.message =
        StrCat("the launcher started ", started,
               " processes (LOCAL_WORLD_SIZE), and the one with local rank ", local_rank,
               " neither announced itself nor has the agent: it may still import its "
               "framework, or Strobe's part could not start in it");
  }
  std::sort(recordings.begin(), recordings.end(), [](const Recording& a, const Recording& b) {
    return a.rank->local_rank() < b.rank->local_rank();
  });
}

v1::ProcessReport* RowOfPid(const std::string& pid, std::vector<Recording>& recordings) {
  for (Recording& recording : recordings) {
    for (v1::ProcessReport& row : recording.processes) {
      if (row.name().ends_with(StrCat(" ", pid))) return &row;
    }
  }
  return nullptr;
}

// Whether a profiler server that was configured, not announced, recorded a process. It may be any
// one of the pod.
bool ServerRecorded(const std::vector<Recording>& recordings) {
  return std::any_of(recordings.begin(), recordings.end(), [](const Recording& recording) {
    return std::any_of(recording.processes.begin(), recording.processes.end(),
                       [](const v1::ProcessReport& row) {
                         return row.source() == v1::SOURCE_FRAMEWORK && row.outcome() == v1::OK &&
                                !row.has_rank() && Contains(row.name(), ":");
                       });
  });
}

void AddFailedStart(const FailedStart& failed, std::vector<Recording>& recordings) {
  const std::string why = StrCat("Strobe's part could not start in it: ", failed.message);
  if (v1::ProcessReport* row = RowOfPid(failed.pid(), recordings)) {
    if (row->note().empty()) row->set_note(why);
    return;
  }
  if (ServerRecorded(recordings)) return;
  Recording& first = recordings.front();
  const std::string name = StrCat("process ", failed.pid());
  first.processes.push_back(MissingProcess(name, Outcome::kProfilerStartFailed, why));
  first.processes.back().set_source(v1::SOURCE_FRAMEWORK);
  if (first.outcome == Outcome::kNoSource) first.message += StrCat("; ", name, ": ", why);
  ConcludeProcesses(first);
}

// A process may have a row of the agent, too. Without a source, the message tells the first
// reason.
void AddLeftOut(const v1::CapturePlan& plan, const std::vector<Announcement>& announced,
                Recording& first, std::vector<Recording>& recordings) {
  std::size_t rows = 0, more = 0;
  for (const Announcement& process : announced) {
    if (process.trains || process.why_not.empty() || !IsOfContainer(plan, process.container))
      continue;
    const std::string note = StrCat(kLeftOut, process.why_not);
    if (v1::ProcessReport* row = RowOfPid(StrCat(process.pid), recordings)) {
      if (row->note().empty()) row->set_note(process.why_not);
      continue;
    }
    if (rows == kMaxLeftOutRows) {
      ++more;
      continue;
    }
    if (rows++ == 0 && first.outcome == Outcome::kNoSource)
      first.message += StrCat("; ", process.label(), " was left out: ", process.why_not);
    v1::ProcessReport& row = first.processes.emplace_back();
    row.set_name(process.label());
    row.set_source(v1::SOURCE_FRAMEWORK);
    row.set_outcome(v1::OK);
    row.set_note(note);
  }
  if (more > 0)
    first.processes.back().set_note(
        StrCat(first.processes.back().note(), "; and ", more, " more are left out"));
}

}  // namespace

std::vector<FailedStart> LivingAndUnannounced(std::vector<FailedStart> failed,
                                              const std::vector<Announcement>& announced) {
  std::erase_if(failed, [&](const FailedStart& start) {
    return !start.lives ||
           std::any_of(announced.begin(), announced.end(), [&](const Announcement& process) {
             return process.container == start.container() && StrCat(process.pid) == start.pid();
           });
  });
  return failed;
}

void AddMissingProcesses(const v1::CapturePlan& plan, const WorkerProcesses& processes,
                         std::vector<Recording>& recordings) {
  const bool cancelled = std::any_of(
      recordings.begin(), recordings.end(),
      [](const Recording& recording) { return recording.outcome == Outcome::kCancelled; });
  if (recordings.empty() || cancelled) return;
  // Processes whose ranks are not known are not among those that certain ranks were asked of.
  if (plan.source() != v1::SOURCE_AGENT && IsWanted(plan, std::nullopt)) {
    for (const FailedStart& failed : processes.failed) {
      if (IsOfContainer(plan, failed.container())) AddFailedStart(failed, recordings);
    }
    AddLeftOut(plan, processes.announced, recordings.front(), recordings);
  }
  AddMissingRanks(plan, processes.announced, recordings);
}

}  // namespace strobe::source
