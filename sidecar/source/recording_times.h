// When a recording is to begin and to end, and whether somebody sets the wall clock meanwhile.
#pragma once
#include "common/base/clock.h"
#include "common/base/clock_steps.h"
#include "strobe/v1/worker.pb.h"

namespace strobe {

// The plan's times become moments when this is made; setting the wall clock does not move them. Not
// for several threads.
class RecordingTimes {
 public:
  RecordingTimes(const Clock& clock, const v1::CapturePlan& plan);

  // From now; 0 when it has passed.
  Nanos UntilStart() const { return Until(start_); }
  Nanos UntilStop() const { return Until(stop_); }
  Nanos UntilDeadline() const { return Until(deadline_); }
  // The recording ends here, earlier than planned.
  void StopNow();
  // What of the window is recorded: its duration, or less after StopNow.
  Nanos Recorded() const;

  // Looks at the wall clock; to be called every few milliseconds from before the start on.
  void Look();
  // The last look: nothing records any more, perhaps since before the planned stop.
  void Ended();
  // By how much the clock was set since this was made, at the last look.
  Nanos set() const { return set_; }
  // By how much it was set between start and stop, or so near to them that nobody can tell.
  Nanos set_while_recording() const { return set_while_recording_; }
  // What a wall time that was read at the start (or stop) was off by. `read` helps where the clock
  // was set just then: the recording is taken to have begun as near to the plan as it can have.
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

}  // namespace strobe
