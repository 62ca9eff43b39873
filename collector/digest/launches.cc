#include "collector/digest/launches.h"

namespace strobe::digest {

void Launches::Sort() {
  if (!sorted_) {
    std::stable_sort(all_.begin(), all_.end(),
                     [](const Launch& a, const Launch& b) { return a.key < b.key; });
  }
  sorted_ = true;
}

std::optional<std::int64_t> Launches::BeginOf(std::uint64_t process,
                                              std::int64_t correlation) const {
  const std::uint64_t key = KeyOf(process, correlation);
  const auto found = std::partition_point(all_.begin(), all_.end(),
                                          [&](const Launch& launch) { return launch.key < key; });
  if (found == all_.end() || found->key != key) return std::nullopt;
  return found->begin_ps;
}

}  // namespace strobe::digest
