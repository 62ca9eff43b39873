// How often those who wait for what nobody announces look again: all of them together at most so
// many times a second, shared equally among namespaces. Pure.
#pragma once
#include <map>
#include <set>
#include <string>

#include "common/base/clock.h"

namespace strobe {

class PollPace {
 public:
  // `key` waits; when it is to look again.
  Nanos Enter(const std::string& space, const std::string& key);
  // It does not wait any more. Idempotent.
  void Leave(const std::string& key);
  std::size_t waiting() const { return spaces_of_.size(); }

 private:
  std::map<std::string, std::string> spaces_of_;       // By key.
  std::map<std::string, std::set<std::string>> keys_;  // By namespace.
};

// Twenty looks a second of all waiters, however many there are.
inline constexpr Nanos kPollEach = std::chrono::milliseconds(50);
inline constexpr Nanos kMinPoll = std::chrono::seconds(2);
inline constexpr Nanos kMaxPoll = std::chrono::seconds(60);

}  // namespace strobe
