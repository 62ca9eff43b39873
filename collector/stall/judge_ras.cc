#include "collector/stall/judge_ras.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "common/base/strings.h"

namespace strobe::stall {
namespace {

// The counts of all ranks that are named, by call.
using RasCounts = std::map<std::string, std::map<int, std::int64_t>>;

RasCounts CountsOf(const RasCommunicator& communicator) {
  RasCounts counts;
  for (const RasRank& rank : communicator.ranks) {
    for (const RasCount& count : rank.counts) counts[count.op][rank.rank] = count.count;
  }
  return counts;
}

// The ranks that have launched less of any call than another has.
std::set<int> BehindIn(const RasCommunicator& communicator) {
  std::set<int> behind;
  for (const auto& [op, by_rank] : CountsOf(communicator)) {
    std::int64_t most = 0;
    for (const auto& [rank, count] : by_rank) most = std::max(most, count);
    for (const RasUsual& usual : communicator.usual) {
      if (usual.op == op && usual.ranks > 0) most = std::max(most, usual.count);
    }
    for (const auto& [rank, count] : by_rank) {
      if (count < most) behind.insert(rank);
    }
  }
  return behind;
}

// All that a report counts of each communicator, by its hash.
std::map<std::string, RasCounts> AllCountsOf(const RasReport& report) {
  std::map<std::string, RasCounts> all;
  for (const RasCommunicator& communicator : report.communicators) {
    RasCounts& counts = all[communicator.hash];
    counts.merge(CountsOf(communicator));
    int unnamed = -1;  // Ranks have numbers from 0 on.
    for (const RasUsual& usual : communicator.usual) counts[usual.op][unnamed--] = usual.count;
  }
  return all;
}

// Did anybody launch anything between two answers?
bool Moved(const RasReport& before, const RasReport& after) {
  const std::map<std::string, RasCounts> then = AllCountsOf(before);
  for (const auto& [hash, counts] : AllCountsOf(after)) {
    const auto same = then.find(hash);
    if (same != then.end() && same->second != counts) return true;
  }
  return false;
}

// How many ranks the job has: as many as the largest communicator, if nothing else tells.
int WorldOf(const RasReport& report, int world) {
  if (world > 0) return world;
  for (const RasCommunicator& one : report.communicators) world = std::max(world, one.size);
  return world;
}

// Ranks of the communicator of all ranks are those of the job.
bool IsWholeJob(const RasCommunicator& communicator, int world) {
  return world > 0 && communicator.size == world;
}

std::string NameOfRank(const RasCommunicator& communicator, int rank) {
  std::string text = StrCat("rank ", rank, " of communicator ", communicator.hash, " (",
                            communicator.size, " ranks)");
  const auto at = std::find_if(communicator.ranks.begin(), communicator.ranks.end(),
                               [&](const RasRank& one) { return one.rank == rank; });
  if (at != communicator.ranks.end() && at->pid >= 0)
    text += StrCat(", process ", at->pid, " on ", at->host);
  return text;
}

// Ranks of which RAS has no data.
std::optional<Verdict> JudgeMissing(const RasReport& report, int world) {
  for (const bool dead : {true, false}) {
    for (const RasCommunicator& communicator : report.communicators) {
      Verdict verdict{.kind = dead ? StallClass::kGone : StallClass::kSilent,
                      .confidence = Confidence::kProbably};
      std::vector<std::string> names;
      const bool whole = IsWholeJob(communicator, world);
      for (const RasMissing& missing : communicator.missing) {
        if (missing.dead != dead) continue;
        names.push_back(StrCat("rank ", missing.rank));
        if (whole) verdict.culprits.push_back({.rank = missing.rank});
      }
      if (names.empty()) continue;
      if (!whole) verdict.confidence = Confidence::kCannotTell;
      verdict.reason = StrCat("RAS ", dead ? "has given up " : "gets no answer from ",
                              Join(names, ", "), " of communicator ", communicator.hash);
      return verdict;
    }
  }
  return std::nullopt;
}

}  // namespace

Verdict JudgeByRas(const JobEvidence& evidence) {
  Verdict verdict;
  if (evidence.ras.empty()) {
    verdict.reason = "there is no Flight Recorder's dump, no stack and no answer of RAS";
    return verdict;
  }
  const RasReport& last = evidence.ras.back();
  const bool twice = evidence.ras.size() > 1;
  const int world = WorldOf(last, evidence.world);
  if (std::optional<Verdict> missing = JudgeMissing(last, world)) return *missing;
  if (twice && Moved(evidence.ras[evidence.ras.size() - 2], last)) {
    verdict.kind = StallClass::kProgressing;
    verdict.confidence = Confidence::kFirm;
    verdict.reason = "collectives were launched between RAS's two answers";
    return verdict;
  }
  constexpr std::size_t kMaxNames = 3;
  std::vector<std::string> names;
  std::set<int> ranks;
  for (const RasCommunicator& communicator : last.communicators) {
    for (const int rank : BehindIn(communicator)) {
      if (names.size() < kMaxNames)
        names.push_back(NameOfRank(communicator, rank));
      else if (names.size() == kMaxNames)
        names.emplace_back("others");
      if (IsWholeJob(communicator, world)) ranks.insert(rank);
    }
  }
  if (names.empty()) {
    verdict.reason = "RAS counts as many collectives on all ranks; ask for Flight Recorder's dumps";
    return verdict;
  }
  verdict.reason = StrCat("by RAS's counts ", Join(names, "; "), " launched less than others",
                          twice ? "" : "; a job that runs looks so too: ask RAS twice");
  // A rank that is behind in one communicator may itself wait in another.
  if (!twice || ranks.size() != 1 || names.size() != 1) return verdict;
  verdict.kind = StallClass::kHost;
  verdict.confidence = Confidence::kProbably;
  verdict.culprits.push_back({.rank = *ranks.begin()});
  return verdict;
}

bool RasAgrees(const std::vector<RasReport>& reports, int rank, const Collective& blocked_on) {
  const auto at = std::lower_bound(blocked_on.ranks.begin(), blocked_on.ranks.end(), rank);
  if (reports.empty() || at == blocked_on.ranks.end() || *at != rank) return false;
  const int index = static_cast<int>(at - blocked_on.ranks.begin());
  const auto size = static_cast<int>(blocked_on.ranks.size());
  return std::any_of(reports.back().communicators.begin(), reports.back().communicators.end(),
                     [&](const RasCommunicator& communicator) {
                       return communicator.size == size && BehindIn(communicator).contains(index);
                     });
}

}  // namespace strobe::stall
