// A request to stop, for threads that wait and for library calls that poll a flag.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "common/base/mutex.h"

namespace strobe {

// A flag that is set once and stays set. A thread that waits on it, instead of sleeping, stops as
// soon as it is set. Safe for concurrent use.
class Cancellation {
 public:
  void Cancel() {
    // One critical section, because a waiter may destroy this object as soon as it ends.
    MutexLock lock(&mutex_);
    byte_.store(1, std::memory_order_relaxed);
    for (Cancellation* const linked : linked_) linked->Cancel();
  }
  bool cancelled() const { return byte_.load(std::memory_order_relaxed) != 0; }
  // Waits for at most `duration`. True if cancelled by then.
  bool WaitFor(Nanos duration) const {
    MutexLock lock(&mutex_);
    return mutex_.AwaitFor(duration, [this] { return cancelled(); });
  }
  // The address of a byte that becomes non-zero on cancellation, for code in other languages. The
  // byte must be read atomically.
  const std::uint8_t* byte() const { return reinterpret_cast<const std::uint8_t*>(&byte_); }

 private:
  friend class CancellationLink;

  static_assert(sizeof(std::atomic<std::uint8_t>) == 1);
  std::atomic<std::uint8_t> byte_{0};
  mutable Mutex mutex_;
  mutable std::vector<Cancellation*> linked_ ABSL_GUARDED_BY(mutex_);
};

// While this object lives, cancelling `from` cancels `to` as well, at once if `from` is cancelled
// already. A thread can thus wait for the first of several requests. Links must not form a circle.
class CancellationLink {
 public:
  // Both must outlive this object.
  CancellationLink(const Cancellation& from, Cancellation& to) : from_(from), to_(&to) {
    {
      MutexLock lock(&from_.mutex_);
      from_.linked_.push_back(to_);
    }
    if (from_.cancelled()) to.Cancel();
  }
  ~CancellationLink() {
    MutexLock lock(&from_.mutex_);
    from_.linked_.erase(std::find(from_.linked_.begin(), from_.linked_.end(), to_));
  }
  CancellationLink(const CancellationLink&) = delete;
  CancellationLink& operator=(const CancellationLink&) = delete;

 private:
  const Cancellation& from_;
  Cancellation* const to_;
};

}  // namespace strobe
