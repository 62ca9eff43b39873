// Detects that the wall clock was set.
#pragma once
#include "common/base/clock.h"

namespace strobe {

// The wall clock minus the monotonic clock. Reads both several times and keeps the reading with the
// shortest interval, because the thread may be preempted between two calls.
Nanos WallLessMonotonic(const Clock& clock);

// Compares the wall clock with the monotonic clock. The difference changes only when the wall clock
// is set, because NTP slews both. A plan in wall time can therefore be turned into monotonic
// moments that do not move, and the error in a trace's time stamps is known. Safe for concurrent
// use.
class ClockSteps {
 public:
  // Counts steps from construction on. `clock` must outlive this object.
  explicit ClockSteps(const Clock& clock);
  // Counts steps from the moment when the wall clock was ahead of the monotonic clock by
  // `wall_less_monotonic`.
  ClockSteps(const Clock& clock, Nanos wall_less_monotonic)
      : clock_(clock), difference_(wall_less_monotonic) {}

  // The sum of all steps since construction. A sum below one millisecond is reported as 0, because
  // the two clocks cannot be read at the same moment.
  Nanos Since() const;
  // The monotonic time at which the wall clock would show `time` if it had not been set since
  // construction.
  MonoTime Moment(WallTime time) const { return MonoTime{time.time_since_epoch() - difference_}; }
  // How far the wall clock was ahead of the monotonic clock at construction.
  Nanos wall_less_monotonic() const { return difference_; }

 private:
  const Clock& clock_;
  const Nanos difference_;  // Wall clock minus monotonic clock at construction.
};

}  // namespace strobe
