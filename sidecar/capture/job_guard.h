// Watches the trainer on a thread of its own, from shortly before a capture until its trace is
// collected, and reports when the capture harms it.
#pragma once
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "common/base/cancellation.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "sidecar/capture/harm.h"
#include "sidecar/capture/ports.h"

namespace strobe::session {

class JobGuard {
 public:
  // The guard starts this long before the instant. The steps in that time are compared with those
  // during recording.
  static constexpr Nanos kLookBefore = std::chrono::minutes(2);

  // `on_harm` is called at most once, from the guard's thread. `clock` and `monitor` must outlive
  // this object.
  JobGuard(const Clock& clock, JobMonitor& monitor, const v1::CapturePlan& plan,
           std::function<void(const Harm&)> on_harm);
  ~JobGuard() { Stop(); }
  JobGuard(const JobGuard&) = delete;
  JobGuard& operator=(const JobGuard&) = delete;

  // Announces that recording begins after `in`.
  void Recording(Nanos in);
  // Announces that recording has ended.
  void Collecting();
  // Stops the guard and returns the effect on the job. No callback runs after it returns.
  v1::JobEffect Stop();

 private:
  void Run(const v1::CapturePlan& plan);

  const Clock& clock_;
  JobMonitor& monitor_;
  const std::function<void(const Harm&)> on_harm_;
  Cancellation stop_;
  Mutex mutex_;
  HarmRule rule_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // Declared last: the thread uses the members above.
};

}  // namespace strobe::session
