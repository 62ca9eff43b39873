// When the host launched work on devices, by the process and the id that join both.
#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>

namespace strobe::digest {

class Launches {
 public:
  // `process`: of the plane, as xplane::ProcessOf tells it.
  void Add(std::uint64_t process, std::int64_t correlation, std::int64_t begin_ps) {
    const std::uint64_t key = KeyOf(process, correlation);
    sorted_ = sorted_ && (all_.empty() || all_.back().key <= key);
    all_.push_back({key, begin_ps});
  }
  // Call it after the last Add.
  void Sort();
  std::optional<std::int64_t> BeginOf(std::uint64_t process, std::int64_t correlation) const;
  bool empty() const { return all_.empty(); }

 private:
  struct Launch {
    std::uint64_t key = 0;
    std::int64_t begin_ps = 0;
  };
  static std::uint64_t KeyOf(std::uint64_t process, std::int64_t correlation) {
    return static_cast<std::uint64_t>(correlation) ^ process;
  }
  // A deque, because a vector would need three times as much memory while it grows.
  std::deque<Launch> all_{};
  bool sorted_ = true;
};

}  // namespace strobe::digest
