// Computes self times while the events of a line are read, in whatever order profilers write them:
// some write an event when it begins, others when it ends.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace strobe::digest {

class Nesting {
 public:
  // The self time of `op` begins with the event's whole duration, and is reduced by that of every
  // event directly inside. `change(op, delta)` is called with every change. Exact if events nest
  // and come by begin, by end, or with siblings in any order; a bounded number of events is
  // remembered.
  template <typename Change>
  void Add(std::int64_t begin, std::int64_t end, std::uint32_t op, const Change& change);
  void Clear() { kept_.clear(); }

 private:
  static constexpr std::uint32_t kNoParent = 0xffffffff;
  static constexpr std::size_t kMaxKept = 4096;
  struct Kept {
    std::int64_t begin = 0, end = 0;
    std::int64_t inside = 0;  // The time that it takes from the event around it.
    std::uint32_t op = 0, parent = kNoParent;
  };
  void Shrink();

  std::vector<Kept> kept_{};  // Events that may still contain others, or be contained.
};

template <typename Change>
void Nesting::Add(std::int64_t begin, std::int64_t end, std::uint32_t op, const Change& change) {
  Kept event{.begin = begin, .end = end, .inside = end - begin, .op = op, .parent = kNoParent};
  change(op, end - begin);
  // Earlier events that lie inside this one. What they had taken from another event is given back.
  while (!kept_.empty() && kept_.back().begin >= begin && kept_.back().end <= end) {
    const Kept& child = kept_.back();
    if (child.parent != kNoParent) change(child.parent, child.inside);
    change(op, -child.inside);
    kept_.pop_back();
  }
  // If events come by begin, an event that has ended and has a parent cannot matter any more.
  while (!kept_.empty() && kept_.back().end <= begin && kept_.back().parent != kNoParent)
    kept_.pop_back();
  constexpr std::size_t kLooks = 64;
  for (std::size_t i = kept_.size(), looks = 0; i-- > 0 && looks < kLooks; ++looks) {
    // An event that contains this one and kept_[i] would be the parent of kept_[i], so there is
    // none.
    if (kept_[i].end <= begin && kept_[i].parent == kNoParent) break;
    if (kept_[i].begin > begin || kept_[i].end < end) continue;
    event.parent = kept_[i].op;
    change(event.parent, -event.inside);
    break;
  }
  kept_.push_back(event);
  if (kept_.size() > kMaxKept) Shrink();
}

// Joins neighbours in pairs. An event around both still learns how much time ran inside.
inline void Nesting::Shrink() {
  std::size_t to = 0;
  for (std::size_t from = 0; from < kept_.size(); ++to) {
    Kept joined = kept_[from++];
    if (from < kept_.size() && kept_[from].parent == joined.parent &&
        kept_[from].begin >= joined.end) {
      joined.inside += kept_[from].inside;
      joined.end = kept_[from++].end;
    }
    kept_[to] = joined;
  }
  // What cannot be joined is forgotten, oldest first.
  if (to > kMaxKept - kMaxKept / 4) {
    const std::size_t drop = kMaxKept / 4;
    std::move(kept_.begin() + static_cast<std::ptrdiff_t>(drop),
              kept_.begin() + static_cast<std::ptrdiff_t>(to), kept_.begin());
    to -= drop;
  }
  kept_.resize(to);
}

}  // namespace strobe::digest
