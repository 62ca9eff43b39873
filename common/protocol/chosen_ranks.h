// The ranks that a capture is limited to.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>

namespace strobe {

struct ChosenRanks {
  std::span<const std::uint32_t> ranks{}, local_ranks{};  // An empty list chooses all.

  bool all() const { return ranks.empty() && local_ranks.empty(); }
  // Whether a process with these ranks is chosen. A process that does not tell a number is not
  // chosen by a list of such numbers.
  bool Has(std::optional<std::uint32_t> rank, std::optional<std::uint32_t> local_rank) const {
    return Allows(ranks, rank) && Allows(local_ranks, local_rank);
  }

 private:
  static bool Allows(std::span<const std::uint32_t> list, std::optional<std::uint32_t> number) {
    return list.empty() || (number && std::find(list.begin(), list.end(), *number) != list.end());
  }
};

// The rank of local rank 0, if the launcher numbered these processes one after the other. `places`
// maps local ranks to places in the job, as protocol messages tell them; it is not empty.
template <typename Processes>
std::optional<std::int64_t> FirstRank(const Processes& places) {
  const auto base = [](const auto& entry) {
    return entry.second.has_rank() ? std::int64_t{entry.second.rank()} - entry.first : -1;
  };
  const std::int64_t first = base(*places.begin());
  const bool agree = std::all_of(places.begin(), places.end(),
                                 [&](const auto& entry) { return base(entry) == first; });
  return agree && first >= 0 ? std::optional(first) : std::nullopt;
}

}  // namespace strobe
