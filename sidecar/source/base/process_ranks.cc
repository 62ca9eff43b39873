#include "sidecar/source/base/process_ranks.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "common/protocol/chosen_ranks.h"

namespace strobe::source {
namespace {

std::span<const std::uint32_t> Span(const google::protobuf::RepeatedField<std::uint32_t>& list) {
  return {list.data(), static_cast<std::size_t>(list.size())};
}

bool TellsLocalRank(const Rank& rank) { return rank && !rank->local_rank_assumed(); }

bool AreOneRank(const Rank& a, const Rank& b) {
  return a && b && a->has_rank() && b->has_rank() && a->rank() == b->rank();
}

}  // namespace

Rank RankOf(std::int64_t rank, std::int64_t local_rank, std::int64_t world_size) {
  if (rank < 0 && local_rank < 0) return std::nullopt;
  v1::ProcessRank place;
  place.set_local_rank(static_cast<std::uint32_t>(local_rank >= 0 ? local_rank : rank));
  place.set_local_rank_assumed(local_rank < 0);
  if (rank >= 0) place.set_rank(static_cast<std::uint32_t>(rank));
  if (world_size > 0) place.set_world_size(static_cast<std::uint32_t>(world_size));
  return place;
}

Rank RankIn(const wire::FileHeader& header) {
  return RankOf(header.rank, header.local_rank, header.world_size);
}

Rank RankIn(const v1::ProcessReport& row) {
  return row.has_rank() ? Rank(row.rank()) : std::nullopt;
}

bool IsWanted(const v1::CapturePlan& plan, const Rank& rank) {
  const ChosenRanks chosen{Span(plan.ranks()), Span(plan.local_ranks())};
  if (!rank) return chosen.all();
  return chosen.Has(rank->has_rank() ? std::optional(rank->rank()) : std::nullopt,
                    TellsLocalRank(rank) ? std::optional(rank->local_rank()) : std::nullopt);
}

std::vector<RankGroup> GroupByRank(const v1::CapturePlan& plan,
                                   const std::vector<Rank>& processes) {
  // Beside told numbers, an assumed one may be that of another process.
  const bool any_told = std::any_of(processes.begin(), processes.end(), TellsLocalRank);
  const auto has_number = [&](const Rank& rank) {
    return any_told ? TellsLocalRank(rank) : rank.has_value();
  };
  std::map<std::uint32_t, RankGroup> by_local_rank;
  for (const Rank& rank : processes) {
    if (has_number(rank) && by_local_rank.size() < kMaxRankGroups)
      by_local_rank.try_emplace(rank->local_rank(), RankGroup{.rank = rank, .members = {}});
  }
  if (by_local_rank.empty() || (plan.one_trace() && by_local_rank.size() > 1))
    by_local_rank = {{0, RankGroup{}}};
  for (std::size_t i = 0; i < processes.size(); ++i) {
    const Rank& rank = processes[i];
    const auto own =
        has_number(rank)
            ? by_local_rank.find(rank->local_rank())
            : std::find_if(by_local_rank.begin(), by_local_rank.end(),
                           [&](const auto& group) { return AreOneRank(group.second.rank, rank); });
    RankGroup& group = own == by_local_rank.end() ? by_local_rank.begin()->second : own->second;
    group.members.push_back(i);
  }
  std::vector<RankGroup> groups;
  for (auto& [local_rank, group] : by_local_rank) groups.push_back(std::move(group));
  return groups;
}

}  // namespace strobe::source
