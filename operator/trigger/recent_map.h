// A map of bounded size that keeps the newest entries: when it is full, the older half is
// forgotten. For values that can be obtained again. Not safe for concurrent use.
#pragma once
#include <string>
#include <unordered_map>
#include <utility>

namespace strobe::trigger {

template <typename Value>
class RecentMap {
 public:
  // Keeps at least the last `half` entries, and at most twice as many.
  explicit RecentMap(std::size_t half) : half_(half) {}

  // Null if there is none, or it was forgotten. Valid until the next Put.
  const Value* Find(const std::string& key) const {
    for (const auto* map : {&newer_, &older_}) {
      if (const auto found = map->find(key); found != map->end()) return &found->second;
    }
    return nullptr;
  }
  void Put(const std::string& key, Value value) {
    if (newer_.size() >= half_ && !newer_.contains(key)) {
      older_ = std::move(newer_);
      newer_.clear();
    }
    newer_.insert_or_assign(key, std::move(value));
  }
  std::size_t size() const { return newer_.size() + older_.size(); }

 private:
  const std::size_t half_;
  std::unordered_map<std::string, Value> newer_, older_;
};

}  // namespace strobe::trigger
