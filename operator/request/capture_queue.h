// Captures that want the same worker take turns. Pure. A capture has its turn when it is first in
// the lines of all its workers, so it never holds some workers while it waits for others. The
// capture that has waited longest is first in every line, so none waits forever.
#pragma once
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/clock.h"

namespace strobe::request {

class CaptureQueue {
 public:
  struct Position {
    std::size_t ahead = 0;  // Captures before it in the longest of its lines; 0 = it has its turn.
    std::string worker{};   // The worker with that line.
    std::string behind{};   // Key of the capture right before it in that line.
  };

  // Enters the capture `key`, or changes its workers. Equal times `since` are ordered by key. A
  // capture that has its turn keeps it until it leaves.
  Position Enter(const std::string& key, WallTime since, const std::set<std::string>& workers);
  // Gives it its turn at once, before all that wait: it is recording already.
  void Hold(const std::string& key, const std::set<std::string>& workers);
  // Ends its turn or its wait. Returns the captures that have their turn because of that.
  std::vector<std::string> Leave(const std::string& key);
  std::size_t waiting() const;  // Captures that do not have their turn.

 private:
  // Whether it waits, since when, and its key: captures that have their turn sort first.
  using Ticket = std::tuple<bool, WallTime, std::string>;
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

}  // namespace strobe::request
