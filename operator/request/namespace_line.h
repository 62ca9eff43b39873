// The line in which requests of one namespace wait for policies that limit how many captures run at
// once, or how soon one follows another. Pure. The request that has waited longest comes first: it
// counts before all others, so that none is overtaken forever. Namespaces have separate lines.
#pragma once
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/clock.h"
#include "operator/policy/policy.h"

namespace strobe::request {

class NamespaceLine {
 public:
  // The request `key`, which waits since `since`, tries to begin. Returns what counts before it.
  // Equal times are ordered by key. Must be followed by Begin, Wait or Leave. Each of those returns
  // the requests that should try again because of it: at most one, of the same namespace.
  policy::EarlierCaptures Try(const std::string& ns, const std::string& key, WallTime since);
  // It may begin: it is under way until it leaves.
  std::vector<std::string> Begin(const std::string& key);
  // It may not begin yet: it stays in the line.
  std::vector<std::string> Wait(const std::string& key);
  // It neither waits nor is under way any more. Idempotent.
  std::vector<std::string> Leave(const std::string& key);

 private:
  using Ticket = std::tuple<WallTime, std::string>;
  struct Namespace {
    std::set<Ticket> waiting{};
    std::map<std::uint64_t, std::string> trying{};  // By the number of the try.
    std::set<std::string> running{};
  };
  struct Entry {
    std::string ns{};
    WallTime since{};
    std::uint64_t tries = 0;  // The number of its try; 0 = it does not try now.
    bool counted = false;     // A later try has counted this one as under way.
  };

  void TakeOut(const std::string& key, const Entry& entry);
  std::vector<std::string> First(const std::string& ns) const;

  std::map<std::string, Entry> entries_;
  std::map<std::string, Namespace> namespaces_;
  std::uint64_t last_try_ = 0;
};

}  // namespace strobe::request
