// Slots that askers share: threads, connections, requests under way. One asker holds at most as
// many as are still free, so that a few busy ones always leave room for another. Not safe for
// concurrent use.
#pragma once
#include <map>
#include <string>

namespace strobe::fair {

class SlotShares {
 public:
  explicit SlotShares(int all) : free_(all) {}

  // Takes a slot, which GiveBack ends; false if this asker may have none now.
  bool Take(const std::string& asker) {
    const auto own = held_.find(asker);
    if ((own == held_.end() ? 0 : own->second) >= free_) return false;
    ++held_[asker];
    --free_;
    return true;
  }
  void GiveBack(const std::string& asker) {
    const auto own = held_.find(asker);
    if (--own->second == 0) held_.erase(own);
    ++free_;
  }

 private:
  int free_;
  std::map<std::string, int> held_;  // None is 0.
};

}  // namespace strobe::fair
