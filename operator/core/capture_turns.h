// Whose turn it is: captures that want the same worker record one after the other, in the order in
// which they came. Pure. A capture has its turn when it is the first on each of its workers, so
// that it never holds some while it waits for others; whoever has waited longest is first
// everywhere, so that nobody waits for ever.
#pragma once
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/clock.h"

namespace strobe {

class WorkerQueue {
 public:
  struct Place {
    std::size_t ahead = 0;  // Captures that come first on its most wanted worker; 0 = its turn.
    std::string worker{};   // That worker,
    std::string behind{};   // and who is right before it there.
  };

  // Enters `key`, or changes which workers it waits for. Ties of `since` go by key. Who has its
  // turn keeps it until it leaves.
  Place Enter(const std::string& key, WallTime since, const std::set<std::string>& workers);
  // Gives it its turn whoever waits: it records already.
  void Hold(const std::string& key, const std::set<std::string>& workers);
  // Ends its turn or its wait. Returns whose turn it has become by that.
  std::vector<std::string> Leave(const std::string& key);
  std::size_t waiting() const;

 private:
  // Holders sort before all who wait.
  using Ticket = std::tuple<bool, WallTime, std::string>;  // Waits, since, key.
  struct Entry {
    Ticket ticket{};
    std::set<std::string> workers{};
  };

  void Insert(const Entry& entry);
  void Erase(const Entry& entry);
  bool IsFirst(const Entry& entry) const;

  std::map<std::string, Entry> entries_;
  std::map<std::string, std::set<Ticket>> lines_;  // By worker.
};

}  // namespace strobe
