// A mutex with wait conditions, built on std::mutex. It replaces absl::Mutex, because
// ThreadSanitizer cannot see into Debian's shared abseil library. Every Unlock wakes the waiters,
// which evaluate their conditions again.
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
    // Notifies before unlocking, because a waiter may destroy this object as soon as it is
    // unlocked.
    if (waiters_ > 0) changed_.notify_all();
    mutex_.unlock();
  }

  // Blocks until `condition` is true. The condition is evaluated with the mutex held.
  template <typename Condition>
  void Await(const Condition& condition) ABSL_EXCLUSIVE_LOCKS_REQUIRED(this) {
    std::unique_lock<std::mutex> held(mutex_, std::adopt_lock);
    ++waiters_;
    changed_.wait(held, condition);
    --waiters_;
    held.release();
  }
  // Like Await, for at most `timeout`. False if the condition is still false then.
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

// A flag that is set once. Any number of threads may wait for it.
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
  // Waits for at most `timeout`. True if the flag was set by then.
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
