// How often requests look again for something that no event announces. All of them together look at
// most 20 times a second, shared equally among namespaces. Pure.
#pragma once
#include <map>
#include <set>
#include <string>

#include "common/base/clock.h"

namespace strobe::request {

class PollPace {
 public:
  // The request `key` waits: returns after how long it should look again.
  Nanos Enter(const std::string& ns, const std::string& key);
  // The request does not wait any more. Idempotent.
  void Leave(const std::string& key);
  std::size_t waiting() const { return namespaces_.size(); }

 private:
  std::map<std::string, std::string> namespaces_;      // By key.
  std::map<std::string, std::set<std::string>> keys_;  // By namespace.
};

// The interval of one request is this times the number of requests that share the looks.
inline constexpr Nanos kPollEach = std::chrono::milliseconds(50);
inline constexpr Nanos kMinPoll = std::chrono::seconds(2);
inline constexpr Nanos kMaxPoll = std::chrono::seconds(60);

}  // namespace strobe::request
