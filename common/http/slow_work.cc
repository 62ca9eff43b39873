#include "common/http/slow_work.h"

#include <sys/resource.h>

#include <optional>
#include <utility>

#include "common/base/guard.h"

namespace strobe::http {
namespace {

constexpr MonoTime kAtOnce{};  // When tasks are due.

}  // namespace

bool SlowWork::Add(const std::string& asker, Task task) {
  MutexLock lock(&mutex_);
  if (stopping_) return false;
  const std::size_t own = waiting_.size_of(asker);
  if (own > 0 && (waiting_.size() >= limits_.waiting || own >= limits_.waiting_each)) return false;
  (void)waiting_.Push(asker, kAtOnce, {.asker = asker, .task = std::move(task)});
  if (threads_.size() < static_cast<std::size_t>(limits_.threads))
    threads_.emplace_back([this] {
      // The kernel changes this thread and those that it starts.
      if (limits_.niceness != 0) (void)setpriority(PRIO_PROCESS, 0, limits_.niceness);
      RunThread("slow_work", [this] { Run(); });
    });
  return true;
}

void SlowWork::Stop() {
  // Destroyed after the lock is released, because a task's destructor may do anything.
  fair::FairQueue<OwnedTask> dropped(kUnbounded);
  std::vector<std::thread> threads;
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    std::swap(dropped, waiting_);
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

bool SlowWork::MayRun(const std::string& asker) const {
  const auto own = running_.find(asker);
  return own == running_.end() || own->second < limits_.each;
}

void SlowWork::Run() {
  // Called with the lock only, which the analysis does not see through the queue.
  const auto may = [this](const std::string& asker)
                       ABSL_NO_THREAD_SAFETY_ANALYSIS { return MayRun(asker); };
  while (true) {
    std::optional<OwnedTask> next;
    {
      MutexLock lock(&mutex_);
      mutex_.Await([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stopping_ || waiting_.HasNext(kAtOnce, may);
      });
      if (stopping_) return;
      next = waiting_.Pop(kAtOnce, may);
      ++running_[next->asker];
    }
    (void)RunGuarded("slow_work", next->task);
    // Before its share is free again: a task may hold much memory.
    (void)RunGuarded("slow_work", [&] { next->task = nullptr; });
    MutexLock lock(&mutex_);
    if (--running_[next->asker] == 0) running_.erase(next->asker);
  }
}

}  // namespace strobe::http
