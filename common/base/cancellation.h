// One way to say "stop", for waits and for calls into libraries.
#pragma once
#include <atomic>
#include <cstdint>

#include "common/base/mutex.h"

namespace strobe {

// Set once by whoever cancels; everybody else waits on it instead of sleeping.
class Cancellation {
 public:
  void Cancel() {
    byte_.store(1, std::memory_order_relaxed);
    notification_.Notify();
  }
  bool cancelled() const { return byte_.load(std::memory_order_relaxed) != 0; }
  // True when cancelled before the time was up.
  bool WaitFor(Nanos duration) const { return notification_.WaitFor(duration); }
  // Non-zero once cancelled; for code that is not C++. Read it atomically.
  const std::uint8_t* byte() const { return reinterpret_cast<const std::uint8_t*>(&byte_); }

 private:
  static_assert(sizeof(std::atomic<std::uint8_t>) == 1);
  std::atomic<std::uint8_t> byte_{0};
  Notification notification_;
};

}  // namespace strobe
