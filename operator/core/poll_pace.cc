#include "operator/core/poll_pace.h"

#include <algorithm>

namespace strobe {

Nanos PollPace::Enter(const std::string& space, const std::string& key) {
  Leave(key);
  spaces_of_[key] = space;
  std::set<std::string>& own = keys_[space];
  own.insert(key);
  // Each namespace gets an equal share of the looks, and each of its requests an equal part of
  // that.
  const auto shares = static_cast<std::int64_t>(keys_.size() * own.size());
  return std::clamp<Nanos>(kPollEach * shares, kMinPoll, kMaxPoll);
}

void PollPace::Leave(const std::string& key) {
  const auto found = spaces_of_.find(key);
  if (found == spaces_of_.end()) return;
  const auto space = keys_.find(found->second);
  space->second.erase(key);
  if (space->second.empty()) keys_.erase(space);
  spaces_of_.erase(found);
}

}  // namespace strobe
