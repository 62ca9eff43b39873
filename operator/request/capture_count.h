// Counts the captures under way, so that a shutdown can wait until there are none. Stands between
// the reconciler and its metrics. Safe for concurrent use.
#pragma once
#include <cstddef>
#include <string>

#include "absl/base/thread_annotations.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "operator/request/ports.h"

namespace strobe::request {

class CaptureCount final : public CaptureMetrics {
 public:
  // Passes every call on to `metrics`, which must outlive it.
  explicit CaptureCount(CaptureMetrics& metrics) : metrics_(metrics) {}

  void AttemptEnded(const objects::ProfileRequest& request,
                    const capture::AttemptProgress& progress) override {
    metrics_.AttemptEnded(request, progress);
  }
  void CaptureEnded(const objects::ProfileRequest& request, CaptureEnd result) override {
    metrics_.CaptureEnded(request, result);
  }
  void ActiveCaptures(std::size_t count) override {
    metrics_.ActiveCaptures(count);
    MutexLock lock(&mutex_);
    active_ = count;
  }

  // True when no capture is under way; false when some still are after `timeout`.
  bool AwaitNone(Nanos timeout) const {
    MutexLock lock(&mutex_);
    return mutex_.AwaitFor(timeout,
                           [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return active_ == 0; });
  }

 private:
  CaptureMetrics& metrics_;
  mutable Mutex mutex_;
  std::size_t active_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace strobe::request
