// A sample of the correlation ids of a process's launches, or of a device's work. Those of any two
// have the ids in common that both have, as far as they are sampled: the same ids are chosen.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

namespace strobe::kineto {

class IdSample {
 public:
  // If there are more ids, those with the smallest hashes are kept.
  static constexpr std::size_t kMaxIds = 1024;

  void Add(std::int64_t id, std::int64_t begin_ps) {
    if (id == 0) return;
    const std::uint64_t hash = Hash(id);
    if (hash > limit_) return;
    const auto [found, added] = begins_.try_emplace(hash, begin_ps);
    if (!added) found->second = std::min(found->second, begin_ps);
    if (begins_.size() < kMaxIds) return;
    if (begins_.size() > kMaxIds) begins_.erase(std::prev(begins_.end()));
    limit_ = std::prev(begins_.end())->first;
  }
  bool empty() const { return begins_.empty(); }
  // When the first event with each id began, by the hash of the id.
  const std::map<std::uint64_t, std::int64_t>& begins() const { return begins_; }

 private:
  // One to one, so that no two ids have the same hash.
  static std::uint64_t Hash(std::int64_t id) {
    auto hash = static_cast<std::uint64_t>(id);
    hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9;
    hash = (hash ^ hash >> 27) * 0x94d049bb133111eb;
    return hash ^ hash >> 31;
  }

  std::map<std::uint64_t, std::int64_t> begins_{};
  std::uint64_t limit_ = ~std::uint64_t{0};
};

}  // namespace strobe::kineto
