// Measurements of clocks wait for a slot. If thousands of workers are asked at once, their answers
// wait for one another in this process, and the clocks seem to be known much less well than the
// network would allow.
#pragma once
#include <functional>
#include <memory>

#include "common/base/executor.h"

namespace strobe::capture {

// Safe for concurrent use.
class ProbeSlots {
 public:
  struct Limits {
    int at_once = 32;
    // A slot is freed after this time even if its work has not ended, so that workers that are far
    // away, or gone, do not keep the others waiting: at least 320 begin in a second.
    Nanos longest = std::chrono::milliseconds(100);
  };
  // Frees the slot when it is dropped.
  using Slot = std::shared_ptr<void>;
  using Work = std::function<void(Slot)>;

  ProbeSlots() : ProbeSlots(Limits()) {}
  explicit ProbeSlots(Limits limits);
  ~ProbeSlots();
  ProbeSlots(const ProbeSlots&) = delete;
  ProbeSlots& operator=(const ProbeSlots&) = delete;

  // Calls `work` when it has a slot, in the order of the calls: at once, or later on another
  // thread. It must not block. Work that still waits when this object is destroyed is dropped.
  void Take(Work work);

 private:
  struct State;
  struct Waiter;

  static void BeginNext(const std::shared_ptr<State>& state);

  const std::shared_ptr<State> state_;
  ThreadExecutor executor_;
};

}  // namespace strobe::capture
