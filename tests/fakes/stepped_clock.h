// The machine's clock, with a wall time that tests can step. Safe for concurrent use.
#pragma once
#include <atomic>

#include "common/base/clock.h"

namespace strobe {

class SteppedClock final : public Clock {
 public:
  WallTime WallNow() const override { return system_.WallNow() + Nanos{set_.load()}; }
  MonoTime MonoNow() const override { return system_.MonoNow(); }
  void Step(Nanos by) { set_ += by.count(); }

 private:
  const SystemClock system_{};
  std::atomic<Nanos::rep> set_{0};
};

}  // namespace strobe
