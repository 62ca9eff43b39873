// A request to stop, for threads that wait and for library calls that poll a flag.
#pragma once
#include <atomic>
#include <cstdint>

#include "common/base/mutex.h"

namespace strobe {

// A flag that is set once and stays set. A thread that would sleep waits on it instead and so stops
// at once. Safe for concurrent use.
class Cancellation {
 public:
  void Cancel() {
    byte_.store(1, std::memory_order_relaxed);
    notification_.Notify();
  }
  bool cancelled() const { return byte_.load(std::memory_order_relaxed) != 0; }
  // Waits for at most `duration`. True if cancelled by then.
  bool WaitFor(Nanos duration) const { return notification_.WaitFor(duration); }
  // The address of a byte that becomes non-zero on cancellation, for code in other languages. The
  // byte must be read atomically.
  const std::uint8_t* byte() const { return reinterpret_cast<const std::uint8_t*>(&byte_); }

 private:
  static_assert(sizeof(std::atomic<std::uint8_t>) == 1);
  std::atomic<std::uint8_t> byte_{0};
  Notification notification_;
};

}  // namespace strobe
