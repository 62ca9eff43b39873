// A bounded queue of what is due at some time, shared by namespaces: they take turns, and when it
// is full, the namespace that has most entries waiting loses one, so that a storm in one namespace
// costs only its own. Not safe for concurrent use.
#pragma once
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "common/base/clock.h"

namespace strobe {

template <typename Entry>
class FairQueue {
 public:
  explicit FairQueue(std::size_t most) : most_(most) {}

  // False if an entry had to be dropped, which may be this one.
  bool Push(const std::string& ns, MonoTime due, Entry entry) {
    waiting_[ns].emplace(due, std::move(entry));
    if (++size_ <= most_) return true;
    const auto longest = std::max_element(
        waiting_.begin(), waiting_.end(),
        [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    (void)Take(longest, std::prev(longest->second.end()));
    return false;
  }

  // What is due, of the next namespace that has something. Entries of one namespace keep the order
  // in which they are due.
  std::optional<Entry> Pop(MonoTime now) {
    auto next = waiting_.upper_bound(last_);
    for (std::size_t left = waiting_.size(); left > 0; --left, ++next) {
      if (next == waiting_.end()) next = waiting_.begin();
      if (next->second.begin()->first > now) continue;
      last_ = next->first;
      return Take(next, next->second.begin());
    }
    return std::nullopt;
  }

  // When the first entry is due; none if there is no entry.
  std::optional<MonoTime> due() const {
    std::optional<MonoTime> first;
    for (const auto& [ns, entries] : waiting_)
      first = std::min(first.value_or(MonoTime::max()), entries.begin()->first);
    return first;
  }
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }

 private:
  using Entries = std::multimap<MonoTime, Entry>;
  using Waiting = std::map<std::string, Entries>;  // By namespace; none is empty.

  Entry Take(typename Waiting::iterator from, typename Entries::iterator taken) {
    Entry entry = std::move(taken->second);
    from->second.erase(taken);
    if (from->second.empty()) waiting_.erase(from);
    --size_;
    return entry;
  }

  const std::size_t most_;
  Waiting waiting_;
  std::size_t size_ = 0;
  std::string last_;  // The namespace that had the last turn.
};

}  // namespace strobe
