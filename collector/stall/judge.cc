#include "collector/stall/judge.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "collector/stall/collective_record.h"
#include "collector/stall/job_view.h"
#include "collector/stall/judge_processes.h"
#include "collector/stall/judge_ras.h"
#include "collector/stall/usual_waits.h"
#include "collector/stall/verdict.h"
#include "collector/stall/wait_graph.h"
#include "common/base/quantile.h"
#include "common/base/strings.h"

namespace strobe::stall {
namespace {

std::int64_t UsualGap(const OpenOp& op) {
  std::vector<std::int64_t> gaps = GapsBefore(op);
  return gaps.size() < 3 ? 0 : std::max<std::int64_t>(QuantileOf(gaps, 0.5), 0);
}

// Is the thread asleep in a call that waits neither for a device nor for another rank? One that
// waits for CUDA may look like one on the host.
bool SleepsByItself(const StackThread& thread) {
  return Contains(thread.wchan, "nanosleep") || Contains(thread.wchan, "pipe_read");
}

// May the thread wait for a send or a receive? Work.wait() is written in C++, so that its caller's
// line is the innermost one, and gloo records no transfers.
bool MayWaitInTransfer(const StackThread& thread) {
  const bool in_library = !thread.frames.empty() && !(OwnFrame(thread) == thread.frames.front());
  return Contains(thread.wchan, "futex") && !in_library;
}

Verdict MovesOn(std::string reason) {
  Verdict verdict{.kind = StallClass::kProgressing, .confidence = Confidence::kProbably};
  verdict.reason = std::move(reason);
  return verdict;
}

class Judge {
 public:
  explicit Judge(const JobEvidence& evidence) : evidence_(evidence), view_(ViewOf(evidence)) {}

  Verdict Run() {
    graph_ = GraphOf(evidence_, view_);
    AddLengths();
    for (const int rank : view_.speaking) stood_[rank] = StoodOf(evidence_.ranks.at(rank));
    Verdict verdict = Choose();
    if (verdict.kind == StallClass::kUnknown && !evidence_.moves.empty())
      verdict = MovesOn(evidence_.moves.front());
    if (!view_.speaking.empty())
      verdict.without_evidence.assign(view_.dark.begin(), view_.dark.end());
    // Any of those may be the one for whom the others wait.
    if (!view_.dark.empty() && verdict.confidence == Confidence::kFirm &&
        verdict.kind != StallClass::kProgressing)
      verdict.confidence = Confidence::kProbably;
    verdict.looked_at.twice = view_.has_flight && view_.all_twice;
    verdict.looked_at.ras_reports = evidence_.ras.size();
    for (const auto& [rank, one] : evidence_.ranks) {
      verdict.looked_at.flight_records += one.flight ? 1 : 0;
      verdict.looked_at.stacks += one.stacks ? 1 : 0;
      verdict.looked_at.states += one.state != ProcessState::kUnknown ? 1 : 0;
    }
    // What thousands do would take long to tell, and nobody reads it.
    constexpr std::size_t kMaxDescribed = 64;
    std::size_t described = 0;
    for (Culprit& culprit : verdict.culprits) {
      const auto evidence = evidence_.ranks.find(culprit.rank);
      if (evidence == evidence_.ranks.end()) continue;
      culprit.label = evidence->second.label;
      if (described++ < kMaxDescribed) Describe(evidence->second, culprit, verdict);
    }
    AddWaiters(verdict);
    return verdict;
  }

 private:
  struct Stood {
    MainDoing doing = MainDoing::kUnknown;
    bool still = false;  // Its frames are equal in both looks.
  };

  Verdict Choose() {
    if (const std::optional<Verdict> moving = JudgeProgress()) return *moving;
    if (const std::optional<Verdict> ended = JudgeEnded(evidence_, SomeWait())) return *ended;
    if (const std::optional<Verdict> stopped = JudgeStopped(evidence_))
      return UnlessAnotherStands(*stopped);
    if (const std::optional<Verdict> cut = JudgeCut()) return *cut;
    if (view_.speaking.empty()) return JudgeByRas(evidence_);
    if (!graph_.clashes.empty()) return JudgeClashes();
    if (const std::optional<Verdict> pause = JudgeUsualWaits()) return *pause;
    if (const std::optional<Verdict> root = JudgeRoots()) return *root;
    if (!graph_.lacks.empty()) return JudgeCycle();
    if (!graph_.lags.empty()) return JudgeLags();
    return JudgeByStacks();
  }

  // A rank's first wait is its longest. There may be very many others.
  void AddLengths() {
    int last = -1;
    for (const Wait& wait : graph_.waits) {
      if (wait.waiter != last) lengths_.push_back(LengthOf(evidence_, wait));
      last = wait.waiter;
    }
  }

  static Stood StoodOf(const RankEvidence& one) {
    if (!one.stacks) return {};
    Stood stood{.doing = MainThreadOf(*one.stacks).doing};
    const StackThread* before = one.stacks->main_thread();
    const StackThread* after = one.stacks_later ? one.stacks_later->main_thread() : nullptr;
    stood.still = before != nullptr && after != nullptr && before->frames == after->frames;
    return stood;
  }

  bool InTorch(int rank) const {
    const auto at = stood_.find(rank);
    return at != stood_.end() && (at->second.doing == MainDoing::kCollective ||
                                  at->second.doing == MainDoing::kRendezvous);
  }

  bool OnHost(int rank) const {
    const auto at = stood_.find(rank);
    return at != stood_.end() && at->second.doing == MainDoing::kHost;
  }

  bool SomeWait() const {
    return !graph_.waiting.empty() || std::any_of(stood_.begin(), stood_.end(),
                                                  [this](auto& one) { return InTorch(one.first); });
  }

  // More than one may have done it, and the evidence does not tell which.
  static Verdict OneOf(StallClass kind, const std::vector<int>& ranks) {
    Verdict verdict{.kind = kind};
    verdict.reason = StrCat("it is one of ranks ", RanksText(ranks), ", and nothing tells which");
    return verdict;
  }

  static Verdict Unknown(std::string reason) {
    Verdict verdict;
    verdict.reason = std::move(reason);
    return verdict;
  }

  std::optional<Verdict> JudgeProgress() const {
    for (const auto& [key, launches] : view_.first) {
      const Launches* later = view_.Find(view_.later, key.first, key.second);
      if (later == nullptr || later->launched <= launches.launched) continue;
      Verdict verdict = MovesOn(StrCat("rank ", key.second, " launched ",
                                       later->launched - launches.launched, " collectives of ",
                                       view_.groups[key.first].desc, " between the two looks"));
      verdict.confidence = Confidence::kFirm;
      return verdict;
    }
    // A recorder that has recorded nothing tells of no job, as where one process trains alone.
    const bool recorded = !view_.first.empty();
    // Stacks also change while programs end.
    const bool some_gone =
        std::any_of(evidence_.ranks.begin(), evidence_.ranks.end(),
                    [](const auto& one) { return one.second.state == ProcessState::kGone; });
    if (recorded || some_gone) return std::nullopt;
    for (const auto& [rank, one] : evidence_.ranks) {
      if (!one.stacks || !one.stacks_later || StoodOf(one).still) continue;
      return MovesOn(StrCat("the stack of rank ", rank, " changed between the two looks"));
    }
    return std::nullopt;
  }

  // A debugger may have stopped a rank that waits for another.
  Verdict UnlessAnotherStands(Verdict stopped) const {
    for (const auto& [rank, waits] : graph_.lacks) {
      if (graph_.waiting.contains(rank) || !OnHost(rank)) continue;
      stopped.confidence = std::min(stopped.confidence, Confidence::kProbably);
      stopped.reason = StrCat("rank ", rank, " may hold them up as well: it waits for nobody, at ",
                              FrameText(OwnFrame(*evidence_.ranks.at(rank).stacks->main_thread())));
      break;
    }
    return stopped;
  }

  std::optional<Verdict> JudgeCut() const {
    std::optional<Verdict> cut = JudgeConnections(evidence_, view_.dark);
    const bool decided = !cut || cut->confidence == Confidence::kFirm || !view_.dark.empty();
    if (decided || !graph_.clashes.empty()) return cut;
    // A path that loses some packets does not hold up a job in which a rank stands still on the
    // host.
    std::optional<Verdict> root = JudgeRoots();
    return root && root->confidence == Confidence::kFirm ? root : cut;
  }

  // A slow job, or one in which a rank always takes longer, looks between two looks as if it stood.
  std::optional<Verdict> JudgeUsualWaits() const {
    const bool all_usual = std::all_of(lengths_.begin(), lengths_.end(), [](WaitLength length) {
      return length == WaitLength::kUsual;
    });
    if (lengths_.empty() || !all_usual) return std::nullopt;
    return MovesOn(UsualText(evidence_, graph_.waits.front()));
  }

  Verdict JudgeClashes() const {
    std::set<int> odd, undecided;
    Confidence confidence = Sure();
    std::optional<Siblings> siblings;  // Reads all records, and most clashes have a minority.
    for (const auto& [key, launched] : graph_.clashes) {
      std::map<std::string, std::vector<int>> sides;
      for (const auto& [rank, op] : launched) sides[op.signature()].push_back(rank);
      std::size_t most = 0, with_most = 0;
      for (const auto& [signature, ranks] : sides) {
        if (ranks.size() == most) ++with_most;
        if (ranks.size() > most) with_most = 1;
        most = std::max(most, ranks.size());
      }
      std::set<int> minority, against_siblings;
      std::string sibling;
      if (with_most > 1) {
        if (!siblings) siblings.emplace(evidence_, view_, graph_);
        sibling = siblings->OpOf(view_.groups[key.first].desc, key.second, launched);
      }
      for (const auto& [rank, op] : launched) {
        if (sides[op.signature()].size() < most) minority.insert(rank);
        if (!sibling.empty() && op.op() != sibling) against_siblings.insert(rank);
      }
      if (with_most < 2) {
        odd.merge(minority);
      } else if (!against_siblings.empty() && against_siblings.size() < launched.size()) {
        odd.merge(against_siblings);
        confidence = std::min(confidence, Confidence::kProbably);
      } else {
        for (const auto& [rank, op] : launched) undecided.insert(rank);
      }
    }
    if (odd.empty()) return OneOf(StallClass::kMismatch, {undecided.begin(), undecided.end()});
    return NameRanks(StallClass::kMismatch, confidence, odd);
  }

  // Ranks that have not launched what others wait in and do not wait themselves.
  std::optional<Verdict> JudgeRoots() const {
    std::vector<int> roots, hosts, proven;
    for (const auto& [rank, waits] : graph_.lacks) {
      if (graph_.waiting.contains(rank)) continue;
      roots.push_back(rank);
      // One in a call of torch.distributed waits for a peer, in a send or a receive.
      if (InTorch(rank)) continue;
      hosts.push_back(rank);
      if (OnHost(rank)) proven.push_back(rank);
    }
    if (!hosts.empty()) {
      const bool all_proven = proven.size() == hosts.size();
      return NameHosts(WithoutReceivers(proven.empty() ? hosts : proven),
                       all_proven ? Sure() : Confidence::kProbably);
    }
    const bool chain_ends_unseen =
        graph_.waits_for_dark || !graph_.lacks.empty() || !graph_.waiting.empty();
    if (!view_.dark.empty() && chain_ends_unseen) return WaitsForDark();
    if (roots.empty()) return std::nullopt;
    return NameRanks(StallClass::kOtherBranch, Confidence::kProbably, roots);
  }

  // Without those that wait, or may wait, for another one of them in a send or a receive.
  std::vector<int> WithoutReceivers(const std::vector<int>& hosts) const {
    const bool some_stuck =
        std::any_of(hosts.begin(), hosts.end(), [this](int rank) { return IsStuckByItself(rank); });
    std::vector<int> left;
    for (const int rank : hosts) {
      const bool may_wait = view_.in_transfer.contains(rank) ||
                            (some_stuck && OnHost(rank) &&
                             MayWaitInTransfer(*evidence_.ranks.at(rank).stacks->main_thread()));
      if (IsStuckByItself(rank) || !may_wait) left.push_back(rank);
    }
    return left.empty() ? hosts : left;
  }

  Verdict NameHosts(const std::vector<int>& named, Confidence confidence) const {
    for (const int rank : named) {
      if (!IsSureOfHost(rank)) confidence = std::min(confidence, Confidence::kProbably);
    }
    Verdict verdict = NameRanks(StallClass::kHost, confidence, named);
    const auto idle =
        std::find_if(named.begin(), named.end(), [this](int rank) { return WaitsForEvents(rank); });
    if (idle != named.end()) {
      verdict.confidence = std::min(confidence, Confidence::kProbably);
      verdict.reason =
          StrCat("rank ", *idle, " waits for events, as a server without requests does");
    }
    const bool all_before = std::all_of(lengths_.begin(), lengths_.end(), [](WaitLength length) {
      return length == WaitLength::kUsual || length == WaitLength::kMayEnd;
    });
    if (!all_before) return verdict;
    verdict.confidence = std::min(verdict.confidence, Confidence::kProbably);
    verdict.reason = UsualText(evidence_, graph_.waits.front());
    return verdict;
  }

  Verdict WaitsForDark() const {
    return Unknown(
        "those that told something wait, and the one that holds them up may be among the ranks "
        "without evidence");
  }

  // Every rank that lacks a collective waits for another.
  Verdict JudgeCycle() const {
    for (const auto& [rank, waits] : graph_.lacks) {
      if (graph_.lags.contains(rank)) return JudgeLags();
    }
    std::vector<int> skippers = SkippersOf(evidence_, view_, graph_);
    if (!skippers.empty())
      return NameRanks(StallClass::kOtherBranch, Confidence::kProbably, skippers);
    std::size_t most = 0;
    for (const auto& [rank, count] : graph_.blamed) most = std::max(most, count);
    std::vector<int> blamed;
    for (const auto& [rank, count] : graph_.blamed) {
      if (count == most) blamed.push_back(rank);
    }
    if (blamed.size() > 1) return OneOf(StallClass::kOtherBranch, blamed);
    return NameRanks(StallClass::kOtherBranch, Confidence::kProbably, blamed);
  }

  // They wait in what others have finished: their device or transport lags.
  Verdict JudgeLags() const {
    std::vector<int> ranks;
    for (const auto& [rank, waits] : graph_.lags) ranks.push_back(rank);
    return NameRanks(StallClass::kDevice, Confidence::kProbably, ranks);
  }

  Verdict JudgeByStacks() const {
    std::vector<int> hosts;
    bool others_wait = false;
    for (const auto& [rank, stood] : stood_) {
      others_wait = others_wait || InTorch(rank);
      if (OnHost(rank) && stood.still && !graph_.waiting.contains(rank)) hosts.push_back(rank);
    }
    if (!view_.dark.empty()) return WaitsForDark();
    if (others_wait && !hosts.empty())
      return NameRanks(StallClass::kHost, Confidence::kProbably, hosts);
    if (const std::optional<Verdict> one = JudgeSleepers(hosts)) return *one;
    if (graph_.waits.empty())
      return Unknown(
          "no rank waits in a collective that is recorded; set TORCH_FR_BUFFER_SIZE=2000, or give "
          "stacks of all ranks");
    Verdict verdict{.kind = StallClass::kDevice};
    verdict.collective = CollectiveOf(graph_.waits.front());
    verdict.reason =
        "all have launched it, so that a device or the transport does not finish it; "
        "which rank's is not told";
    return verdict;
  }

  // Where nothing records collectives, as in JAX without NCCL: some sleep, or keep Python's lock,
  // and all others wait for something else than time or input.
  std::optional<Verdict> JudgeSleepers(const std::vector<int>& hosts) const {
    if (view_.has_flight || hosts.size() != view_.speaking.size()) return std::nullopt;
    std::vector<int> sleepers;
    for (const int rank : hosts) {
      const StackThread& thread = *evidence_.ranks.at(rank).stacks->main_thread();
      if (!RestedBetweenLooks(rank)) return std::nullopt;
      if (IsStuckByItself(rank))
        sleepers.push_back(rank);
      else if (!Contains(thread.wchan, "futex"))
        return std::nullopt;
    }
    if (sleepers.empty() || sleepers.size() == hosts.size()) return std::nullopt;
    Verdict verdict = NameRanks(StallClass::kHost, Confidence::kProbably, sleepers);
    verdict.reason = "no record tells of collectives; the others wait in another way";
    return verdict;
  }

  // What collectives tell is sure after a second look only.
  Confidence Sure() const { return view_.all_twice ? Confidence::kFirm : Confidence::kProbably; }

  bool IsSureOfHost(int rank) const {
    if (!OnHost(rank) || !stood_.at(rank).still) return false;
    const std::vector<Wait>& waits = graph_.lacks.at(rank);
    if (view_.groups[waits.front().group].guessed || !WasSeenSince(rank, waits)) return false;
    if (IsStuckByItself(rank)) return true;
    // One that runs may come to its end.
    return waits.front().op.op().starts_with("gloo:") &&
           evidence_.ranks.at(rank).stacks->main_thread()->state != "R";
  }

  // Did its main thread stand at one place all the time, and not come back to it?
  bool RestedBetweenLooks(int rank) const {
    // What a thread takes that wakes now and then to look for something.
    constexpr std::int64_t kWakingNs = 5'000'000;
    const RankEvidence& one = evidence_.ranks.at(rank);
    if (!one.stacks || !one.stacks_later) return false;
    const StackThread* before = one.stacks->main_thread();
    const StackThread* after = one.stacks_later->main_thread();
    return before != nullptr && after != nullptr && before->ran_ns >= 0 &&
           after->ran_ns - before->ran_ns < kWakingNs;
  }

  // Is its main thread in an event loop?
  bool WaitsForEvents(int rank) const {
    return OnHost(rank) && KeptGil(evidence_.ranks.at(rank)) == nullptr &&
           Contains(evidence_.ranks.at(rank).stacks->main_thread()->wchan, "ep_poll");
  }

  bool IsStuckByItself(int rank) const {
    const RankEvidence& one = evidence_.ranks.at(rank);
    return OnHost(rank) && stood_.at(rank).still &&
           (KeptGil(one) != nullptr || SleepsByItself(*one.stacks->main_thread()));
  }

  // Ranks are not looked at in the same moment: what one had not launched when it was looked at may
  // be what another waited in later.
  bool WasSeenSince(int rank, const std::vector<Wait>& waits) const {
    const std::int64_t looked_at_ns = evidence_.ranks.at(rank).stacks->looked_at_ns;
    return looked_at_ns == 0 || std::any_of(waits.begin(), waits.end(), [&](const Wait& wait) {
             return looked_at_ns - wait.op.entry->created_ns >= kShortWaitNs;
           });
  }

  // The thread that had Python's lock in both looks and stood still.
  static const StackThread* KeptGil(const RankEvidence& one) {
    const StackThread* before = one.stacks ? one.stacks->gil_holder() : nullptr;
    const StackThread* after = one.stacks_later ? one.stacks_later->gil_holder() : nullptr;
    const bool kept = before != nullptr && after != nullptr && before->id == after->id &&
                      before->frames == after->frames;
    return kept ? before : nullptr;
  }

  Collective CollectiveOf(const Wait& wait) const {
    const JobGroup& group = view_.groups[wait.group];
    return {.op = PlainOp(wait.op.op()),
            .group = group.name,
            .desc = group.desc,
            .ranks = group.ranks,
            .seq = wait.seq,
            .first_waiter = wait.waiter,
            .since_ns = wait.op.entry->created_ns,
            .waited_ns = std::max<std::int64_t>(WaitedNs(evidence_, wait).value_or(0), 0),
            .usual_gap_ns = UsualGap(wait.op)};
  }

  void Describe(const RankEvidence& one, Culprit& culprit, Verdict& verdict) const {
    DescribeCollective(culprit, verdict);
    if (!one.stacks) return;
    const StackThread* gil = KeptGil(one);
    const StackThread* thread = gil != nullptr ? gil : one.stacks->main_thread();
    if (thread == nullptr || thread->frames.empty()) return;
    const StackFrame& line = OwnFrame(*thread);
    culprit.keeps_gil = gil != nullptr;
    culprit.line = FrameText(line);
    if (!(line == thread->frames.front())) culprit.inside = FrameText(thread->frames.front());
  }

  void DescribeCollective(Culprit& culprit, Verdict& verdict) const {
    if (verdict.kind == StallClass::kDevice) {
      if (const auto lags = graph_.lags.find(culprit.rank); lags != graph_.lags.end())
        culprit.blocked_on = CollectiveOf(lags->second.front());
    } else if (const auto lacks = graph_.lacks.find(culprit.rank); lacks != graph_.lacks.end()) {
      culprit.blocked_on = CollectiveOf(lacks->second.front());
    }
    if (verdict.kind == StallClass::kMismatch) {
      for (const auto& [key, launched] : graph_.clashes) {
        const auto own = launched.find(culprit.rank);
        if (own == launched.end()) continue;
        for (const auto& [rank, op] : launched) {
          if (op.signature() == own->second.signature()) continue;
          culprit.launched = MismatchText(own->second, op);
          if (!culprit.blocked_on)
            culprit.blocked_on = CollectiveOf({key.first, key.second, rank, op});
          break;
        }
      }
    }
    if (verdict.kind == StallClass::kHost && culprit.blocked_on)
      verdict.looked_at.ras_agrees = verdict.looked_at.ras_agrees ||
                                     RasAgrees(evidence_.ras, culprit.rank, *culprit.blocked_on);
  }

  // What one launched in place of the others: the call, or its sizes if they alone differ.
  static std::string MismatchText(const OpenOp& own, const OpenOp& other) {
    if (own.op() != other.op()) return PlainOp(own.op());
    return StrCat(PlainOp(own.op()), " of ", own.record->shape(*own.entry));
  }

  void AddWaiters(Verdict& verdict) const {
    std::set<int> waiters = graph_.waiting;
    for (const int rank : view_.speaking) {
      if (InTorch(rank)) waiters.insert(rank);
    }
    for (const Culprit& culprit : verdict.culprits) waiters.erase(culprit.rank);
    if (verdict.kind == StallClass::kProgressing) waiters.clear();
    verdict.waiters.assign(waiters.begin(), waiters.end());
  }

  const JobEvidence& evidence_;
  const JobView view_;
  WaitGraph graph_{};
  std::vector<WaitLength> lengths_{};  // One for each rank that waits.
  std::map<int, Stood> stood_{};
};

}  // namespace

Verdict JudgeStall(const JobEvidence& evidence) {
  if (!OnlyCollectivesTell(evidence)) return Judge(evidence).Run();
  const JobEvidence adopted = WithCollectives(evidence);
  Verdict verdict = Judge(adopted).Run();
  verdict.looked_at.by_plugin = true;
  return verdict;
}

}  // namespace strobe::stall
