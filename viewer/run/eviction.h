// Chooses which of the things that are kept for several askers gives way to a new one. Pure.
#pragma once
#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace strobe::viewer {

// Who has asked for something that is kept: the latest ones.
class Askers {
 public:
  void Note(const std::string& asker) {
    if (std::find(askers_.begin(), askers_.end(), asker) != askers_.end()) return;
    if (askers_.size() >= kMost) askers_.erase(askers_.begin());
    askers_.push_back(asker);
  }
  // The one who asked for it if nobody else did, else null.
  const std::string* only() const { return askers_.size() == 1 ? &askers_.front() : nullptr; }

 private:
  static constexpr std::size_t kMost = 16;
  std::vector<std::string> askers_;
};

// `kept` have `askers`, and the one that was asked for longest ago is first. Returns the first that
// may go and that only this asker has asked for, so that somebody who asks for much evicts what is
// theirs. If they have nothing, the one gives way who alone has asked for most. The end if none may
// go.
template <typename Kept, typename MayGo>
auto ChooseEvicted(std::vector<Kept>& kept, const std::string& asker, const MayGo& may_go) {
  std::map<std::string, std::size_t> counts;
  for (const Kept& one : kept)
    if (const std::string* only = one.askers.only()) ++counts[*only];
  const auto weight = [&](const Kept& one) -> std::size_t {
    const std::string* only = one.askers.only();
    if (only == nullptr) return 1;
    return *only == asker ? kept.size() + 1 : counts[*only];
  };
  auto chosen = kept.end();
  for (auto place = kept.begin(); place != kept.end(); ++place) {
    if (!may_go(*place)) continue;
    if (chosen == kept.end() || weight(*place) > weight(*chosen)) chosen = place;
  }
  return chosen;
}

}  // namespace strobe::viewer
