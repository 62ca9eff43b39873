// Waits for the start of a capture, records it, and notes what ended it early.
#pragma once
#include <functional>
#include <vector>

#include "common/base/clock.h"
#include "sidecar/capture/live_capture.h"
#include "sidecar/capture/ports.h"
#include "sidecar/capture/stopwatch.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::session {

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
