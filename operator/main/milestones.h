// What the operator's parts tell each other while they start and end, as events: a part waits for
// the milestones that it needs instead of asking for them again and again. Safe for concurrent use.
#pragma once
#include <array>
#include <cstddef>
#include <initializer_list>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"

namespace strobe {

enum class Milestone {
  kCacheFilled,  // The first list of ProfileRequests is in the cache.
  kElected,      // This process holds the lease, or needs none.
  kCertified,    // Its certificates exist.
  kServing,      // Enrollment and webhooks are served.
  kReconciling,  // Requests that change are reconciled from now on.
};

class Milestones {
 public:
  // A milestone that is reached stays so.
  void Reach(Milestone milestone) {
    MutexLock lock(&mutex_);
    reached_[Index(milestone)] = true;
  }
  bool reached(Milestone milestone) const {
    MutexLock lock(&mutex_);
    return reached_[Index(milestone)];
  }

  // The process is ending: every wait returns.
  void Stop() {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  bool stopping() const {
    MutexLock lock(&mutex_);
    return stopping_;
  }

  // Waits until all of them are reached. False as soon as the process is ending, also if they are.
  bool Await(std::initializer_list<Milestone> all) const {
    MutexLock lock(&mutex_);
    mutex_.Await(
        [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || AreReached(all); });
    return !stopping_;
  }
  // True when the process is ending; false when it is not after `timeout`.
  bool AwaitStop(Nanos timeout) const {
    MutexLock lock(&mutex_);
    return mutex_.AwaitFor(timeout,
                           [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_; });
  }

 private:
  static std::size_t Index(Milestone milestone) { return static_cast<std::size_t>(milestone); }
  bool AreReached(std::initializer_list<Milestone> all) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (const Milestone milestone : all) {
      if (!reached_[Index(milestone)]) return false;
    }
    return true;
  }

  mutable Mutex mutex_;
  std::array<bool, static_cast<std::size_t>(Milestone::kReconciling) + 1> reached_
      ABSL_GUARDED_BY(mutex_){};
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace strobe
