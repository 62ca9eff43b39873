// A mutex that can wait for a condition, over the standard library's own, which the sanitizers can
// see through (a shared abseil library is opaque to ThreadSanitizer). Whoever leaves the mutex
// wakes the waiters; they look at their condition again.
#pragma once
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "common/base/clock.h"

namespace strobe {

class ABSL_LOCKABLE Mutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() {
    // Before letting go: a waiter may be the one who then destroys us.
    if (waiters_ > 0) changed_.notify_all();
    mutex_.unlock();
  }

  // Returns with the mutex held and the condition true. The condition is evaluated under the mutex.
  template <typename Condition>
  void Await(const Condition& condition) ABSL_EXCLUSIVE_LOCKS_REQUIRED(this) {
    std::unique_lock<std::mutex> held(mutex_, std::adopt_lock);
    ++waiters_;
    changed_.wait(held, condition);
    --waiters_;
    held.release();
  }
  // The same for at most so long; false when the condition is still false then.
  template <typename Condition>
  bool AwaitFor(Nanos timeout, const Condition& condition) ABSL_EXCLUSIVE_LOCKS_REQUIRED(this) {
    std::unique_lock<std::mutex> held(mutex_, std::adopt_lock);
    ++waiters_;
    const bool met = changed_.wait_for(held, timeout, condition);
    --waiters_;
    held.release();
    return met;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiters_ = 0;  // Guarded by mutex_.
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(*mutex) {
    mutex_.Lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Set once; any number may wait for it.
class Notification {
 public:
  void Notify() {
    MutexLock lock(&mutex_);
    set_ = true;
  }
  bool is_set() const {
    MutexLock lock(&mutex_);
    return set_;
  }
  void Wait() const {
    MutexLock lock(&mutex_);
    mutex_.Await([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return set_; });
  }
  // True when it was set before the time was up.
  bool WaitFor(Nanos timeout) const {
    MutexLock lock(&mutex_);
    return mutex_.AwaitFor(timeout,
                           [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return set_; });
  }

 private:
  mutable Mutex mutex_;
  bool set_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace strobe
