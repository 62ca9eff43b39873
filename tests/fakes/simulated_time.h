// A clock that only advances when a test says so, and an executor that uses it. Single-threaded.
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

  // Simulates that someone sets the wall clock.
  void StepWall(Nanos forward) { wall_ += forward; }

  // Runs all tasks that are due, including tasks that they post, until none is due.
  void RunUntilIdle() { Advance(Nanos{0}); }
  // Advances the time and runs each task at the time at which it is due.
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
