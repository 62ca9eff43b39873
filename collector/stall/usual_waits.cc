#include "collector/stall/usual_waits.h"

#include <algorithm>
#include <cstddef>

#include "common/base/duration.h"
#include "common/base/strings.h"

namespace strobe::stall {
namespace {

constexpr std::int64_t kFirstSeqs = 2;  // Programs compile at the start.
constexpr std::size_t kFewGaps = 3;
// One gap in so many is the one between two steps, where steps have several collectives.
constexpr std::size_t kUsualShare = 20;

}  // namespace

std::vector<std::int64_t> GapsBefore(const OpenOp& op, std::int64_t behind) {
  std::vector<std::int64_t> gaps;
  std::int64_t before = 0;
  for (const FlightEntry& entry : op.record->entries) {
    if (entry.group != op.entry->group || entry.p2p || entry.seq <= behind ||
        entry.seq >= op.entry->seq)
      continue;
    if (before > 0) gaps.push_back(entry.created_ns - before);
    before = entry.created_ns;
  }
  return gaps;
}

std::optional<std::int64_t> WaitedNs(const JobEvidence& evidence, const Wait& wait) {
  const RankEvidence& one = evidence.ranks.at(wait.waiter);
  if (!one.stacks || one.stacks->looked_at_ns == 0 || wait.op.entry->created_ns == 0)
    return std::nullopt;
  return one.stacks->looked_at_ns - wait.op.entry->created_ns;
}

WaitLength LengthOf(const JobEvidence& evidence, const Wait& wait) {
  const std::optional<std::int64_t> waited = WaitedNs(evidence, wait);
  if (!waited) return WaitLength::kUnknown;
  const std::vector<std::int64_t> gaps = GapsBefore(wait.op, kFirstSeqs);
  const auto longer = static_cast<std::size_t>(
      std::count_if(gaps.begin(), gaps.end(), [&](std::int64_t gap) { return gap > *waited; }));
  if (longer >= std::max(kFewGaps, gaps.size() / kUsualShare)) return WaitLength::kUsual;
  const std::int64_t longest = gaps.empty() ? 0 : *std::max_element(gaps.begin(), gaps.end());
  const bool may_end = *waited < kShortWaitNs || *waited / 2 < longest;
  return may_end ? WaitLength::kMayEnd : WaitLength::kLong;
}

std::string UsualText(const JobEvidence& evidence, const Wait& wait) {
  const std::vector<std::int64_t> gaps = GapsBefore(wait.op, kFirstSeqs);
  const std::string text = StrCat("rank ", wait.waiter, " has waited for ",
                                  FormatDuration(Nanos{WaitedNs(evidence, wait).value_or(0)}));
  if (gaps.empty()) return StrCat(text, " only");
  return StrCat(text, ", and up to ",
                FormatDuration(Nanos{*std::max_element(gaps.begin(), gaps.end())}),
                " lay between two of these before");
}

}  // namespace strobe::stall
