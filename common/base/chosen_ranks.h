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

}  // namespace strobe
