// A bounded queue of what is due at some time, shared by askers, such as namespaces or users: they
// take turns, and when it is full, the asker who has most entries waiting loses one, so that a
// storm of one costs only its own. Not safe for concurrent use.
#pragma once
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "common/base/clock.h"

namespace strobe::fair {

template <typename Entry>
class FairQueue {
 public:
  explicit FairQueue(std::size_t most) : most_(most) {}

  // False if an entry had to be dropped, which may be this one.
  bool Push(const std::string& asker, MonoTime due, Entry entry) {
    waiting_[asker].emplace(due, std::move(entry));
    if (++size_ <= most_) return true;
    const auto longest = std::max_element(
        waiting_.begin(), waiting_.end(),
        [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    (void)Take(longest, std::prev(longest->second.end()));
    return false;
  }

  // What is due, of the next asker who has something and for whom `may` is true. Entries of one
  // asker keep the order in which they are due.
  template <typename May>
  std::optional<Entry> Pop(MonoTime now, const May& may) {
    const auto next = Next(now, may);
    if (next == waiting_.end()) return std::nullopt;
    last_ = next->first;
    const auto from = waiting_.find(last_);
    return Take(from, from->second.begin());
  }
  std::optional<Entry> Pop(MonoTime now) {
    return Pop(now, [](const std::string&) { return true; });
  }
  // Whether Pop would return an entry.
  template <typename May>
  bool HasNext(MonoTime now, const May& may) const {
    return Next(now, may) != waiting_.end();
  }

  // When the first entry is due; none if there is no entry.
  std::optional<MonoTime> due() const {
    std::optional<MonoTime> first;
    for (const auto& [asker, entries] : waiting_)
      first = std::min(first.value_or(MonoTime::max()), entries.begin()->first);
    return first;
  }
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  std::size_t size_of(const std::string& asker) const {
    const auto own = waiting_.find(asker);
    return own == waiting_.end() ? 0 : own->second.size();
  }

 private:
  using Entries = std::multimap<MonoTime, Entry>;
  using Waiting = std::map<std::string, Entries>;  // By asker; none is empty.

  template <typename May>
  typename Waiting::const_iterator Next(MonoTime now, const May& may) const {
    auto next = waiting_.upper_bound(last_);
    for (std::size_t left = waiting_.size(); left > 0; --left, ++next) {
      if (next == waiting_.end()) next = waiting_.begin();
      if (next->second.begin()->first <= now && may(next->first)) return next;
    }
    return waiting_.end();
  }

  Entry Take(typename Waiting::iterator from, typename Entries::iterator taken) {
    Entry entry = std::move(taken->second);
    from->second.erase(taken);
    if (from->second.empty()) waiting_.erase(from);
    --size_;
    return entry;
  }

  std::size_t most_;
  Waiting waiting_;
  std::size_t size_ = 0;
  std::string last_;  // The asker who had the last turn.
};

}  // namespace strobe::fair
