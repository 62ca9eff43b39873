#include "operator/request/poll_pace.h"

#include <algorithm>

namespace strobe::request {

Nanos PollPace::Enter(const std::string& ns, const std::string& key) {
  Leave(key);
  namespaces_[key] = ns;
  std::set<std::string>& own = keys_[ns];
  own.insert(key);
  // Each namespace gets an equal share of the looks, and each of its requests an equal part of
  // that.
  const auto shares = static_cast<std::int64_t>(keys_.size() * own.size());
  return std::clamp<Nanos>(kPollEach * shares, kMinPoll, kMaxPoll);
}

void PollPace::Leave(const std::string& key) {
  const auto found = namespaces_.find(key);
  if (found == namespaces_.end()) return;
  const auto ns = keys_.find(found->second);
  ns->second.erase(key);
  if (ns->second.empty()) keys_.erase(ns);
  namespaces_.erase(found);
}

}  // namespace strobe::request
