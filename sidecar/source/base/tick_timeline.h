// Converts a ring file's ticks to time. Pure.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "agent/wire/ticks.h"

namespace strobe::source {

// Converts the ring's ticks to picoseconds since the window began.
struct TickScale {
  std::uint64_t ticks = 0;
  std::int64_t ps = 0;  // The time at `ticks`.
  double ps_per_tick = 1;

  // From a tick on, another line holds.
  struct Bend {
    std::uint64_t ticks = 0;
    std::int64_t ps = 0;
    double ps_per_tick = 1;
  };
  std::vector<Bend> bends{};  // Ascending, all after `ticks`.

  std::int64_t Ps(std::uint64_t at) const {
    const auto after = [this](std::uint64_t value) {
      return static_cast<std::int64_t>(value - ticks);
    };
    const auto next = std::upper_bound(
        bends.begin(), bends.end(), after(at),
        [&](std::int64_t value, const Bend& bend) { return value < after(bend.ticks); });
    if (next == bends.begin()) return Line(at, {ticks, ps, ps_per_tick});
    return Line(at, *(next - 1));
  }

 private:
  static std::int64_t Line(std::uint64_t at, const Bend& line) {
    const auto since = static_cast<double>(static_cast<std::int64_t>(at - line.ticks));
    constexpr double kMaxPlausiblePs = 4e18;  // Limits forged times; it is longer than any window.
    return line.ps + static_cast<std::int64_t>(
                         std::clamp(since * line.ps_per_tick, -kMaxPlausiblePs, kMaxPlausiblePs));
  }
};

// What is known of the processor's counter while a program is recorded: moments at which it was
// compared with CLOCK_MONOTONIC. The kernel gives the counter up where it jumps, as when a virtual
// machine was moved or suspended; the agent goes on with it until its program ends. One line
// through all moments would then stretch all events.
class TickTimeline {
 public:
  explicit TickTimeline(const wire::TickMoment& begin) : kept_{begin} {}

  // Adds a later moment. Keeps it only if the ones before it do not predict it.
  void Note(const wire::TickMoment& moment);

  // The times since `start_ns` of CLOCK_MONOTONIC. Before the first moment, the rate of the longest
  // piece without a jump holds. After the counter went back, its values are ambiguous: the line
  // before goes on.
  TickScale Scale(std::int64_t start_ns) const;
  // The rate of the longest piece without a jump; 1 if there is only one moment.
  double ns_per_tick() const;
  // The largest step, in ns, of the counter against CLOCK_MONOTONIC; 0 if it is below a
  // millisecond.
  std::uint64_t jump_ns() const;

 private:
  std::vector<wire::TickMoment> Moments() const;

  // The first moment, and those at which the rate changed.
  std::vector<wire::TickMoment> kept_;
  std::vector<wire::TickMoment> last_{};  // The newest one, unless it is the first.
  bool went_back_ = false;
  wire::TickMoment back_{};  // The first moment after it went back.
};

}  // namespace strobe::source
