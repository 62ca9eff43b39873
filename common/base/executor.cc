#include "common/base/executor.h"

#include <utility>

#include "common/base/guard.h"

namespace strobe {

ThreadExecutor::ThreadExecutor() : thread_([this] { RunThread("executor", [this] { Run(); }); }) {}

ThreadExecutor::~ThreadExecutor() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void ThreadExecutor::PostAfter(Nanos delay, Task task) {
  MutexLock lock(&mutex_);
  tasks_.emplace(SystemClock().MonoNow() + delay, std::move(task));
}

void ThreadExecutor::Run() {
  MutexLock lock(&mutex_);
  while (!stopping_) {
    if (tasks_.empty()) {
      const auto any = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stopping_ || !tasks_.empty();
      };
      mutex_.Await(any);
      continue;
    }
    const MonoTime due = tasks_.begin()->first;
    const MonoTime now = SystemClock().MonoNow();
    if (due > now) {
      const auto earlier = [this, due]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stopping_ || tasks_.begin()->first < due;
      };
      mutex_.AwaitFor((due - now), earlier);
      continue;
    }
    Task task = std::move(tasks_.begin()->second);
    tasks_.erase(tasks_.begin());
    mutex_.Unlock();
    (void)RunGuarded("executor", task);
    task = nullptr;  // Destroys the captured objects while the mutex is not held.
    mutex_.Lock();
  }
}

}  // namespace strobe
