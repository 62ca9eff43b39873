// The times of a trace's events, and which of them cannot be meant: 0 or -1 where a program lost an
// event's time, and garbage. The events with such times would stretch the trace over years.
#pragma once
#include <cstdint>
#include <limits>
#include <map>
#include <optional>

#include "collector/trace/kineto/micros.h"

namespace strobe::kineto {

// Whether a program without a time for its event writes this one.
inline bool MayBeLost(const Micros& time) {
  return time.us == -1 || (time.us == 0 && time.ps == 0);
}

class UsualTimes {
 public:
  // Adds the time at which an event begins; `may_be_lost` as MayBeLost says.
  void Add(std::int64_t ps, bool may_be_lost);
  // Whether there are events, and none has a time that is surely meant.
  bool all_may_be_lost() const { return may_be_lost_.count > 0 && spans_.empty(); }

  struct Usual {
    std::int64_t first_ps = 0, last_ps = 0;
    // What ends later than this has a length that cannot be meant.
    std::int64_t latest_end_ps = std::numeric_limits<std::int64_t>::max();
    std::uint64_t count = 0, left_out = 0;  // Events with these times, and with others.

    bool Has(std::int64_t ps) const { return first_ps <= ps && ps <= last_ps; }
  };
  // `zero_is_lost`: the file's program gives no event the time 0.
  Usual Find(bool zero_is_lost) const;

 private:
  struct Span {
    std::int64_t first_ps = std::numeric_limits<std::int64_t>::max();
    std::int64_t last_ps = std::numeric_limits<std::int64_t>::min();
    std::uint64_t count = 0;

    void Add(const Span& other);
  };
  bool IsFar(const Span& usual, bool zero_is_lost) const;

  Span may_be_lost_{};
  // All other times, by the minute that they are in.
  std::map<std::int64_t, Span> spans_{};
  std::int64_t recent_ = 0;
  Span* recent_span_ = nullptr;
};

// The times of a file's events, counted from one of them, because picoseconds since 1970 do not fit
// into 64 bits.
class EventTimes {
 public:
  // The file's program gives no event the time 0, except where it has lost the event's time.
  void ZeroIsLost() { zero_is_lost_ = true; }
  // Forgets all times. From now on they count from this one, or else from the next one.
  void CountFrom(std::optional<std::int64_t> origin_us);
  std::int64_t origin_us() const { return origin_us_.value_or(0); }

  // Adds the time of an event and returns it in picoseconds since the origin; nullopt if it is too
  // far away.
  std::optional<std::int64_t> Add(const Micros& time);
  std::optional<std::int64_t> PsSinceOrigin(const Micros& time) const;
  bool all_may_be_lost() const { return times_.all_may_be_lost(); }
  UsualTimes::Usual Usual() const { return times_.Find(zero_is_lost_); }

 private:
  std::optional<std::int64_t> origin_us_{};
  bool zero_is_lost_ = false;
  UsualTimes times_{};
};

}  // namespace strobe::kineto
