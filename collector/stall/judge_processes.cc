#include "collector/stall/judge_processes.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "common/base/strings.h"

namespace strobe::stall {
namespace {

// What gloo, NCCL, the store and JAX's service say to those that are left.
constexpr std::array kLostPeer =
    std::to_array<std::string_view>({"closed by peer",    "reset by peer",
                                     "Connection reset",  "Connection closed",
                                     "Broken pipe",       "Read error",
                                     "Timed out waiting", "remote process exited",
                                     "Socket closed",     "network error",
                                     "lost heartbeat",    "detected fatal errors",
                                     "pair closure",      "connection was likely closed",
                                     "wait timeout",      "communicator was aborted",
                                     "ncclRemoteError",   "DistNetworkError",
                                     "DistStoreError",    "DistBackendError"});

using AddressPair = std::pair<std::string, std::string>;

// Does its end alone tell that it was not ended for having lost another?
bool EndsByItself(const RankEvidence& one) {
  if (!one.exception.empty() || !one.may_abort) return true;
  return one.signal && *one.signal != SIGABRT;
}

// A process that began after that one had ended; none if all are older, or it is not known.
std::optional<int> BeganAfter(const JobEvidence& evidence, const RankEvidence& ended) {
  for (const auto& [rank, one] : evidence.ranks) {
    const bool lives = one.state == ProcessState::kThere || one.state == ProcessState::kStopped;
    if (lives && one.age_s && ended.age_s && *one.age_s < *ended.age_s) return rank;
  }
  return std::nullopt;
}

AddressPair PairOf(const TcpLink& link) {
  return {std::min(link.local, link.remote), std::max(link.local, link.remote)};
}

}  // namespace

bool TellsOfALostPeer(std::string_view exception) {
  return std::any_of(kLostPeer.begin(), kLostPeer.end(),
                     [&](std::string_view words) { return ContainsIgnoreCase(exception, words); });
}

std::optional<Verdict> JudgeEnded(const JobEvidence& evidence, bool some_wait) {
  std::set<int> victims, culprits, unexplained;
  bool others_speak = false, all_by_themselves = true;
  for (const auto& [rank, one] : evidence.ranks) {
    others_speak = others_speak || one.speaks();
    if (one.state != ProcessState::kGone) continue;
    const bool told_to_end = one.signal == SIGTERM;
    if (told_to_end || (!one.exception.empty() && TellsOfALostPeer(one.exception))) {
      victims.insert(rank);
    } else if (!one.exception.empty() || one.has_groups) {
      culprits.insert(rank);  // By an exception of its own, or without a word.
      all_by_themselves = all_by_themselves && EndsByItself(one);
    } else {
      unexplained.insert(rank);
    }
  }
  if (victims.empty() && culprits.empty() && unexplained.empty()) return std::nullopt;
  if (culprits.empty() && unexplained.size() == 1 && (others_speak || !victims.empty()))
    return NameRanks(StallClass::kGone, Confidence::kProbably, unexplained);
  if (culprits.empty() || (victims.empty() && !others_speak)) {
    Verdict verdict{.kind = StallClass::kGone};
    verdict.reason = culprits.empty()
                         ? "processes have ended, and none left a record of why"
                         : "all processes have ended, and none of them waited for another";
    return verdict;
  }
  // Several that end without a word may have been ended by one hand.
  const bool one_alone = culprits.size() == 1 && unexplained.empty();
  // One that has done its part may end before the others.
  const bool missed = some_wait || !victims.empty();
  const std::optional<int> younger = BeganAfter(evidence, evidence.ranks.at(*culprits.begin()));
  const bool sure = one_alone && missed && all_by_themselves && !younger;
  Verdict verdict =
      NameRanks(StallClass::kGone, sure ? Confidence::kFirm : Confidence::kProbably, culprits);
  if (!missed) verdict.reason = "no other is seen to wait for it";
  if (younger)
    verdict.reason = StrCat("rank ", *younger,
                            " began after that, so that the job may have been started again since");
  return verdict;
}

std::optional<Verdict> JudgeStopped(const JobEvidence& evidence) {
  std::set<int> stopped;
  for (const auto& [rank, one] : evidence.ranks) {
    if (one.state == ProcessState::kStopped) stopped.insert(rank);
  }
  if (stopped.empty()) return std::nullopt;
  return NameRanks(StallClass::kSilent, Confidence::kFirm, stopped);
}

std::optional<Verdict> JudgeConnections(const JobEvidence& evidence, const std::set<int>& dark) {
  std::map<std::string, std::set<int>> ranks_at;  // By address.
  for (const auto& [rank, one] : evidence.ranks) {
    for (const TcpLink& link : one.links) ranks_at[link.local].insert(rank);
  }
  std::set<AddressPair> cut;
  for (const auto& [rank, one] : evidence.ranks) {
    for (const TcpLink& link : one.links) {
      // Others than ranks of the job may be slow to answer: a store of traces, an API server.
      if (link.retransmits && (!dark.empty() || ranks_at.contains(link.remote)))
        cut.insert(PairOf(link));
    }
  }
  if (cut.empty()) return std::nullopt;
  std::map<std::string, std::size_t> ends;
  for (const auto& [a, b] : cut) {
    ++ends[a];
    ++ends[b];
  }
  std::size_t most = 0;
  for (const auto& [address, count] : ends) most = std::max(most, count);
  std::vector<std::string> worst;
  std::set<int> ranks;
  bool all_known = true;
  for (const auto& [address, count] : ends) {
    if (count < most) continue;
    worst.push_back(address);
    const auto at = ranks_at.find(address);
    all_known = all_known && at != ranks_at.end();
    if (at != ranks_at.end()) ranks.insert(at->second.begin(), at->second.end());
  }
  if (!all_known) ranks.clear();
  // The ranks of which nothing is known are in the only pod that did not answer.
  const bool unplugged =
      !all_known && evidence.silent && dark.size() <= evidence.silent->processes &&
      std::find(worst.begin(), worst.end(), evidence.silent->address) != worst.end() &&
      std::none_of(dark.begin(), dark.end(),
                   [&evidence](int rank) { return evidence.ranks.contains(rank); });
  if (unplugged) ranks = dark;
  const Confidence sure =
      worst.size() == 1 && !unplugged ? Confidence::kFirm : Confidence::kProbably;
  Verdict verdict =
      NameRanks(StallClass::kNetwork, ranks.empty() ? Confidence::kCannotTell : sure, ranks);
  verdict.reason = worst.size() == 1
                       ? StrCat("what is sent to or from ", worst[0], " is not acknowledged, on ",
                                most, most == 1 ? " path" : " paths")
                       : StrCat("what is sent between ", Join(worst, ", "), " is not acknowledged");
  return verdict;
}

}  // namespace strobe::stall
