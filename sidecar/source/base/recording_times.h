// The planned start and end of a recording, with detection of steps of the wall clock.
#pragma once
#include <cstdint>

#include "agent/wire/ticks.h"
#include "common/base/clock.h"
#include "common/base/clock_steps.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::source {

// Nanoseconds of CLOCK_MONOTONIC.
inline std::int64_t MonotonicNow() { return static_cast<std::int64_t>(wire::MonotonicNs()); }

// Converts the plan's times to monotonic times by the plan's own reading of the clocks, so that
// steps of the wall clock after that reading do not move them. Without one, the clocks are read at
// construction. Not thread-safe.
class RecordingTimes {
 public:
  RecordingTimes(const Clock& clock, const v1::CapturePlan& plan);

  // The time from now; 0 if it has passed.
  Nanos UntilStart() const { return Until(start_); }
  Nanos UntilStop() const { return Until(stop_); }
  Nanos UntilDeadline() const { return Until(deadline_); }
  // Ends the recording now, earlier than planned.
  void StopNow();
  // The recorded part of the window: its duration, or less after StopNow.
  Nanos Recorded() const;

  // Checks the wall clock. Call it from before the start on, each time after UntilNextLook.
  void Look();
  // Until the stop, if no check has seen it yet, but at most 50 ms.
  Nanos UntilNextLook() const;
  // The last check. Recording has ended, perhaps before the planned end.
  void Finish();
  // How far the wall clock had been set since the plan's reading, as of the last check.
  Nanos set() const { return set_; }
  // How far it was set between start and end, or so close to them that the order cannot be
  // determined.
  Nanos set_while_recording() const { return set_while_recording_; }
  // The error of a wall time that was read at the start or at the end. `read` helps if the clock
  // was set close to the start: the recording is then assumed to have begun as close to the plan as
  // possible.
  Nanos SetAtStart(WallTime read) const;
  Nanos SetAtStop() const { return set_at_stop_; }

 private:
  Nanos Until(MonoTime moment) const;

  const Clock& clock_;
  const ClockSteps steps_;
  const WallTime planned_start_;
  const Nanos duration_;
  const MonoTime start_, instant_, deadline_;
  MonoTime stop_;
  bool started_ = false, stopped_ = false;
  Nanos set_{0}, set_before_start_{0}, set_after_start_{0}, set_at_stop_{0};
  Nanos set_while_recording_{0};
};

}  // namespace strobe::source
