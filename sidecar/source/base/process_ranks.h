// Divides the processes of a worker by their place in the job. Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "agent/wire/layout.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::source {

// The place of a process in its job; none if the process does not tell it.
using Rank = std::optional<v1::ProcessRank>;

// None unless the process tells its local rank or its rank, which is then assumed to be its local
// rank as well. Negative numbers are not known.
Rank RankOf(std::int64_t rank, std::int64_t local_rank, std::int64_t world_size);

// The rank of the program that wrote a ring file, and the rank in a row.
Rank RankIn(const wire::FileHeader& header);
Rank RankIn(const v1::ProcessReport& row);

// Whether a capture with this plan records the process. A plan that asks for certain ranks does not
// ask for processes that tell none.
bool IsWanted(const v1::CapturePlan& plan, const Rank& rank);

// The processes of one trace.
struct RankGroup {
  Rank rank{};                       // The place that its processes tell; none if none does.
  std::vector<std::size_t> members;  // Their positions, ascending.
};

// At most this many traces; processes of further local ranks belong to the first one.
inline constexpr std::size_t kMaxRankGroups = 64;

// One group for all processes, or, if they tell different local ranks and the plan does not ask for
// one trace, one for each local rank, in ascending order. Processes that tell none, such as a
// launcher, belong to the first group. Local ranks are assumed only if no process tells one;
// otherwise a process that tells only its rank belongs to the group with that rank, or to the first
// one. Never empty.
std::vector<RankGroup> GroupByRank(const v1::CapturePlan& plan, const std::vector<Rank>& processes);

}  // namespace strobe::source
