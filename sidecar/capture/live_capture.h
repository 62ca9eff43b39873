// The capture that a sidecar runs: who wants it to end, why, and whether the trace is kept. Safe
// for concurrent use.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "common/base/cancellation.h"
#include "common/base/clock_steps.h"
#include "common/base/mutex.h"
#include "common/protocol/outcome.h"
#include "sidecar/capture/harm.h"
#include "sidecar/capture/ports.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::session {

class LiveCapture {
 public:
  // `since` counts from when the operator measured the clock that the plan's times refer to.
  // `delivery` receives the trace and must outlive this object.
  LiveCapture(const ClockSteps& since, Delivery& delivery) : steps_(since), delivery_(delivery) {}
  LiveCapture(const LiveCapture&) = delete;
  LiveCapture& operator=(const LiveCapture&) = delete;

  const ClockSteps& steps() const { return steps_; }
  Delivery& delivery() const { return delivery_; }
  const Cancellation& cancel() const { return cancel_; }
  const Cancellation& terminate() const { return terminate_; }

  // Ends the capture; nothing is kept. The first reason counts.
  void Cancel(std::string_view reason);
  // Ends the recording and keeps what was recorded until `now`. The first call counts.
  void Terminate(MonoTime now);
  // Ends the capture because it harms the job, unless somebody ended it before.
  void Abort(const Harm& harm, MonoTime now);
  // Cancels the capture because the process ends. A delivery can be resumed by the next process.
  void Suspend();

  bool suspended() const;
  // The reason why the job guard ended the capture; none if it did not.
  std::optional<Harm> harm() const;
  // When Terminate, or a harm whose trace is kept, ended the recording.
  std::optional<MonoTime> terminated_at() const;
  std::string reason() const;
  // The outcome and the message of a capture that was cancelled.
  struct End {
    Outcome outcome = Outcome::kCancelled;
    std::string message{};
  };
  End CancelledEnd() const;

 private:
  const ClockSteps steps_;
  Delivery& delivery_;
  Cancellation cancel_, terminate_;
  mutable Mutex mutex_;
  std::string reason_ ABSL_GUARDED_BY(mutex_);
  std::optional<Harm> harm_ ABSL_GUARDED_BY(mutex_);
  std::optional<MonoTime> terminated_at_ ABSL_GUARDED_BY(mutex_);
  bool suspended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace strobe::session
