#include "sidecar/source/process_ranks.h"

#include <map>
#include <span>
#include <utility>

#include "common/base/chosen_ranks.h"

namespace strobe {
namespace {

std::span<const std::uint32_t> Span(const google::protobuf::RepeatedField<std::uint32_t>& list) {
  return {list.data(), static_cast<std::size_t>(list.size())};
}

}  // namespace

Rank RankOf(std::int64_t rank, std::int64_t local_rank, std::int64_t world_size) {
  if (rank < 0 && local_rank < 0) return std::nullopt;
  v1::ProcessRank place;
  place.set_local_rank(static_cast<std::uint32_t>(local_rank >= 0 ? local_rank : rank));
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
                    rank->local_rank());
}

std::vector<RankGroup> GroupByRank(const v1::CapturePlan& plan,
                                   const std::vector<Rank>& processes) {
  std::map<std::uint32_t, RankGroup> by_local_rank;
  for (const Rank& rank : processes) {
    if (rank && by_local_rank.size() < kMaxRankGroups)
      by_local_rank.try_emplace(rank->local_rank(), RankGroup{.rank = rank, .members = {}});
  }
  if (by_local_rank.empty() || (plan.one_trace() && by_local_rank.size() > 1))
    by_local_rank = {{0, RankGroup{}}};
  for (std::size_t i = 0; i < processes.size(); ++i) {
    const auto own =
        processes[i] ? by_local_rank.find(processes[i]->local_rank()) : by_local_rank.end();
    RankGroup& group = own == by_local_rank.end() ? by_local_rank.begin()->second : own->second;
    group.members.push_back(i);
  }
  std::vector<RankGroup> groups;
  for (auto& [local_rank, group] : by_local_rank) groups.push_back(std::move(group));
  return groups;
}

}  // namespace strobe
