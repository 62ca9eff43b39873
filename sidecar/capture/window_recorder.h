// Waits for the start of a capture, records it, and notes what ended it early.
#pragma once
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "sidecar/capture/live_capture.h"
#include "sidecar/capture/ports.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::session {

// Measures how long each stage of a capture takes.
class Stopwatch {
 public:
  explicit Stopwatch(const Clock& clock) : clock_(clock), stage_(clock.MonoNow()) {}
  // The time since the last call, in ns.
  std::int64_t Lap() {
    const MonoTime now = clock_.MonoNow();
    return (now - std::exchange(stage_, now)).count();
  }

 private:
  const Clock& clock_;
  MonoTime stage_;
};

class WindowRecorder {
 public:
  // All arguments must outlive the recorder. Without a monitor, the training job is not watched.
  WindowRecorder(const Clock& clock, Source& source, JobMonitor* monitor)
      : clock_(clock), source_(source), monitor_(monitor) {}

  // Returns the recordings and fills in what they tell apart from their traces. Empty if the
  // capture was cancelled before the start. `publish` is called whenever the report's state has
  // changed.
  std::vector<Recording> Record(LiveCapture& live, Stopwatch& watch,
                                const std::function<void()>& publish, v1::Report& report);

 private:
  // Waits until `ahead` before the start of the recording, and returns that start. It is a
  // monotonic time, so that all workers start together even if this wall clock is set meanwhile.
  MonoTime AwaitStart(Nanos ahead, const LiveCapture& live, v1::CapturePlan& plan);
  // Like AwaitStart, for a plan that counts steps. Moves the plan's window to the time at which its
  // steps are expected, by the pace of the processes.
  void AwaitStep(Nanos ahead, const LiveCapture& live, v1::CapturePlan& plan);

  const Clock& clock_;
  Source& source_;
  JobMonitor* const monitor_;
};

}  // namespace strobe::session
