// Who comes first in a namespace, where policies bound how many captures it has at once or how soon
// one follows another. Pure. Whoever waits longest is looked at first and counts as under way for
// all who came later, so that nobody is overtaken for ever; namespaces know nothing of each other.
#pragma once
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/clock.h"
#include "operator/core/policy.h"

namespace strobe {

class SpaceLine {
 public:
  // Begins to look whether `key`, which waits since `since`, may begin; ties go by key. What counts
  // before it. It must be followed by Begin, Wait or Leave.
  Crowd Try(const std::string& space, const std::string& key, WallTime since);
  // It may: it is under way until it leaves. Like all the others this returns who should look again
  // because of it: at most one, of the same namespace.
  std::vector<std::string> Begin(const std::string& key);
  // It may not yet.
  std::vector<std::string> Wait(const std::string& key);
  // It neither waits nor runs any more. Idempotent.
  std::vector<std::string> Leave(const std::string& key);

 private:
  using Ticket = std::tuple<WallTime, std::string>;
  struct Space {
    std::set<Ticket> waiting{};
    std::map<std::uint64_t, std::string> trying{};  // In the order in which they began to.
    std::set<std::string> running{};
  };
  struct Entry {
    std::string space{};
    WallTime since{};
    std::uint64_t tries = 0;  // Its number in `trying`; 0 = it is not there.
    bool counted = false;     // While it tries: somebody who came after it has counted it.
  };

  void TakeOut(const std::string& key, const Entry& entry);
  std::vector<std::string> First(const std::string& space) const;

  std::map<std::string, Entry> entries_;
  std::map<std::string, Space> spaces_;
  std::uint64_t last_try_ = 0;
};

}  // namespace strobe
