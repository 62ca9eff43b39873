// Notices when somebody sets the wall clock.
#pragma once
#include "common/base/clock.h"

namespace strobe {

// The wall clock moves against the monotonic one only when it is set: NTP slews both. Whoever holds
// a plan in wall time can so keep to the moments that were meant, and tell what the traces of a
// worker whose clock was set are off by. Safe for concurrent use.
class ClockSteps {
 public:
  // Steps count from now on. The clock outlives it.
  explicit ClockSteps(const Clock& clock);
  // From when the wall clock was so much ahead of the monotonic one.
  ClockSteps(const Clock& clock, Nanos wall_less_monotonic)
      : clock_(clock), difference_(wall_less_monotonic) {}

  // By how much the wall clock was set since construction, in all. Less than a millisecond is 0,
  // because two clocks cannot be read at the same moment.
  Nanos Since() const;
  // When the wall clock, as it was at construction, would show `time`.
  MonoTime Moment(WallTime time) const { return MonoTime{time.time_since_epoch() - difference_}; }

 private:
  const Clock& clock_;
  const Nanos difference_;  // Wall less monotonic.
};

}  // namespace strobe
