#include "operator/trigger/stall_history.h"

#include <algorithm>

#include "common/base/strings.h"
#include "common/text/utf8.h"

namespace strobe::trigger {
namespace {

constexpr std::size_t kMaxRepeatedBytes = 512, kMaxVerdictLineBytes = 1024, kMaxComparedStalls = 10;

using Culprit = TriggerRun::Culprit;

// In how many stalls, from the newest one on without a gap, somebody is named of whom `is` is true.
template <typename Is>
std::size_t Streak(const std::vector<const TriggerRun*>& stalls, const Is& is) {
  std::size_t streak = 0;
  while (streak < std::min(stalls.size(), kMaxComparedStalls) &&
         std::any_of(stalls[streak]->culprits.begin(), stalls[streak]->culprits.end(), is))
    ++streak;
  return streak;
}

std::string InTheLast(std::size_t streak) { return StrCat(" in the last ", streak, " stalls"); }

}  // namespace

std::string RepeatedCulprit(const std::vector<const TriggerRun*>& stalls) {
  if (stalls.empty()) return "";
  std::vector<std::string> parts;
  const auto add = [&parts](std::string part) {
    if (std::find(parts.begin(), parts.end(), part) == parts.end())
      parts.push_back(std::move(part));
  };
  for (const Culprit& named : stalls.front()->culprits) {
    const std::size_t by_rank = Streak(
        stalls, [&](const Culprit& one) { return named.rank >= 0 && one.rank == named.rank; });
    const std::size_t by_node = Streak(
        stalls, [&](const Culprit& one) { return !named.node.empty() && one.node == named.node; });
    const std::size_t by_both = Streak(stalls, [&](const Culprit& one) {
      return !named.node.empty() && one.node == named.node && one.rank == named.rank;
    });
    if (by_both >= 2 && by_both >= by_rank && by_both >= by_node) {
      add(StrCat("rank ", named.rank, " on ", named.node, InTheLast(by_both)));
      continue;
    }
    if (by_rank >= 2) add(StrCat("rank ", named.rank, InTheLast(by_rank)));
    if (by_node >= 2) add(StrCat("node ", named.node, InTheLast(by_node)));
  }
  return CutUtf8(Join(parts, "; "), kMaxRepeatedBytes);
}

std::optional<LastStall> LastStallOf(const std::vector<TriggerRun>& runs,
                                     const std::optional<LastStall>& former) {
  const auto newest =
      std::find_if(runs.begin(), runs.end(), [](const TriggerRun& run) { return run.stalled; });
  const bool withdrawn =
      former && std::any_of(runs.begin(), runs.end(), [&](const TriggerRun& run) {
        return run.name == former->run && run.created == former->time && !run.stalled;
      });
  if (newest == runs.end()) return withdrawn ? std::nullopt : former;
  if (former && !withdrawn && newest->created < former->time) return former;
  std::vector<const TriggerRun*> stalls;
  for (const TriggerRun& run : runs)
    if (run.stalled && run.job == newest->job) stalls.push_back(&run);
  return LastStall{.time = newest->created,
                   .run = newest->name,
                   .job = newest->job,
                   .kind = newest->stall_class,
                   .confidence = newest->stall_confidence,
                   .verdict = CutUtf8(newest->stall_verdict, kMaxVerdictLineBytes),
                   .repeated = RepeatedCulprit(stalls)};
}

}  // namespace strobe::trigger
