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
  // Whether a process with these ranks is chosen. If `ranks` is not empty, a process whose rank in
  // the job is not known is not chosen.
  bool Has(std::optional<std::uint32_t> rank, std::uint32_t local_rank) const {
    return (ranks.empty() || (rank && Contains(ranks, *rank))) &&
           (local_ranks.empty() || Contains(local_ranks, local_rank));
  }

 private:
  static bool Contains(std::span<const std::uint32_t> list, std::uint32_t number) {
    return std::find(list.begin(), list.end(), number) != list.end();
  }
};

}  // namespace strobe
