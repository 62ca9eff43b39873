// Time that stands still until a test moves it: a clock and an executor on it. Single-threaded.
#pragma once
#include <algorithm>
#include <map>
#include <utility>

#include "common/base/clock.h"
#include "common/base/executor.h"

namespace strobe {

class SimulatedTime final : public Clock, public Executor {
 public:
  explicit SimulatedTime(WallTime start = WallTime{std::chrono::seconds(1'700'000'000)})
      : wall_(start) {}

  WallTime WallNow() const override { return wall_ + elapsed_; }
  MonoTime MonoNow() const override { return MonoTime{elapsed_}; }
  void PostAfter(Nanos delay, Task task) override {
    tasks_.emplace(elapsed_ + std::max(delay, Nanos{0}), std::move(task));
  }

  // Somebody sets the wall clock.
  void StepWall(Nanos forward) { wall_ += forward; }

  // Runs what is due, and what that posts, until nothing is due any more.
  void RunUntilIdle() { Advance(Nanos{0}); }
  // Moves time on, running every task at its own moment.
  void Advance(Nanos duration) {
    const Nanos end = elapsed_ + duration;
    while (!tasks_.empty() && tasks_.begin()->first <= end) {
      elapsed_ = std::max(elapsed_, tasks_.begin()->first);
      Task task = std::move(tasks_.begin()->second);
      tasks_.erase(tasks_.begin());
      task();
    }
    elapsed_ = end;
  }

 private:
  WallTime wall_;
  Nanos elapsed_{};
  std::multimap<Nanos, Task> tasks_;
};

}  // namespace strobe
