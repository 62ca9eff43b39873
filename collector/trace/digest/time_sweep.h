// Adds up what a device did, from the begins and ends of its work in the order of time. The sums at
// given moments tell what it did between any two of them.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "collector/trace/digest/digest.h"

namespace strobe::digest {

// Spans of time that are sorted and do not overlap, in ps.
using Spans = std::vector<std::pair<std::int64_t, std::int64_t>>;
// Sorts spans and joins those that overlap.
void Unite(Spans& spans);
// The time that `spans` take between `begin` and `end`.
std::int64_t TimeWithin(const Spans& spans, std::int64_t begin, std::int64_t end);
// The parts of united spans that are not in the other ones, which are united too.
Spans Without(const Spans& spans, const Spans& others);

// Why a device may idle, as the host's threads tell: each is united. Where they overlap, the first
// one counts.
struct HostSpans {
  Spans input{};       // It waited for input.
  Spans collection{};  // It collected garbage.
  Spans calls{};       // It waited for other workers, in a collective of its own.
};

// Moments at which the sums are wanted, and why the host let devices idle. One for all devices.
class SweepPlan {
 public:
  // `moments` are sorted, each once.
  SweepPlan(std::vector<std::int64_t> moments, const HostSpans& host);

  // The number of a moment that was given.
  std::size_t NumberOf(std::int64_t moment) const;
  std::size_t moments() const { return moments_.size(); }

 private:
  friend class TimeSweep;
  enum class Change : std::uint8_t {
    kMoment,
    kInputOn,
    kInputOff,
    kCollectionOn,
    kCollectionOff,
    kCallOn,
    kCallOff
  };
  struct Mark {
    std::int64_t at = 0;
    Change change{};
  };
  std::vector<std::int64_t> moments_;
  std::vector<Mark> marks_{};  // Sorted by time.
};

class TimeSweep {
 public:
  explicit TimeSweep(const SweepPlan& plan);

  // Work of a kind begins or ends. Times must not go back. kInput is no work: the device waits.
  void Start(std::int64_t at_ps, WorkKind kind);
  void Stop(std::int64_t at_ps, WorkKind kind);
  // Call it after the last one.
  void Finish();

  // Nothing runs now, and something has run before.
  bool idle() const { return begun_ && working_ == 0; }
  // Returns since when nothing runs, if idle().
  std::int64_t idle_since_ps() const { return idle_since_ps_; }
  // Call it before the work starts that ends the idle time: the host launched it too late.
  void BlameHost(std::int64_t at_ps);

  // What happened between two of the plan's moments, by number.
  std::pair<Breakdown, HostTime> Between(std::size_t from, std::size_t to) const;

 private:
  static constexpr unsigned kCompute = 1, kCommunication = 2, kCopy = 4;
  struct Sums {
    std::array<std::int64_t, 8> working{};  // By what runs, as bits; 0 is unused.
    // They do not overlap.
    std::int64_t idle = 0, idle_input = 0, idle_collection = 0, idle_call = 0;
    std::int64_t host_bound = 0;  // A part of `idle`.
  };
  void AdvanceTo(std::int64_t at_ps);
  void Account(std::int64_t at_ps);

  const SweepPlan* plan_;
  std::size_t next_mark_ = 0;
  Sums sums_{};
  std::vector<Sums> at_moments_{};
  std::int64_t now_ps_;
  std::array<std::uint32_t, 3> running_{};  // Computations, communications, copies.
  std::uint32_t waiting_ = 0;               // Infeeds.
  unsigned working_ = 0;                    // Which of them run, as bits.
  bool input_ = false, collection_ = false, call_ = false, begun_ = false;

  // The idle time that nobody has explained yet: its begin, how much of it was accounted, and how
  // much of that before each moment since.
  std::int64_t idle_since_ps_ = 0, unexplained_ = 0;
  std::vector<std::pair<std::size_t, std::int64_t>> unexplained_at_{};
};

}  // namespace strobe::digest
