// Looks at how the trainer fares from shortly before a capture until its trace is collected, on a
// thread of its own, and says when the capture harms it.
#pragma once
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "common/base/cancellation.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "sidecar/session/harm.h"
#include "sidecar/session/ports.h"

namespace strobe::session {

class JobGuard {
 public:
  // How long before the instant it is early enough to begin: steps before are compared with those
  // that are recorded.
  static constexpr Nanos kLookBefore = std::chrono::minutes(2);

  // `on_harm` is called at most once, from the guard's thread. Clock and monitor outlive it.
  JobGuard(const Clock& clock, JobMonitor& monitor, const v1::CapturePlan& plan,
           std::function<void(const Harm&)> on_harm);
  ~JobGuard() { Stop(); }
  JobGuard(const JobGuard&) = delete;
  JobGuard& operator=(const JobGuard&) = delete;

  // The recording begins after so long.
  void Recording(Nanos in);
  void Collecting();
  // What the job went through. Nothing is called any more when this returns.
  v1::JobEffect Stop();

 private:
  void Run(const v1::CapturePlan& plan);

  const Clock& clock_;
  JobMonitor& monitor_;
  const std::function<void(const Harm&)> on_harm_;
  Cancellation stop_;
  Mutex mutex_;
  HarmRule rule_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // Last: it starts when the rest is there.
};

}  // namespace strobe::session
