#include "common/http/slow_work.h"

#include <utility>

#include "common/base/guard.h"

namespace strobe::http {

bool SlowWork::Add(Task task) {
  MutexLock lock(&mutex_);
  if (stopping_ || waiting_.size() >= max_waiting_) return false;
  waiting_.push_back(std::move(task));
  if (threads_.size() < static_cast<std::size_t>(size_))
    threads_.emplace_back([this] { RunThread("slow_work", [this] { Run(); }); });
  return true;
}

void SlowWork::Stop() {
  // Destroyed after the lock is released, because a task's destructor may do anything.
  std::deque<Task> dropped;
  std::vector<std::thread> threads;
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    dropped.swap(waiting_);
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

void SlowWork::Run() {
  while (true) {
    Task task;
    {
      MutexLock lock(&mutex_);
      mutex_.Await([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stopping_ || !waiting_.empty();
      });
      if (stopping_) return;
      task = std::move(waiting_.front());
      waiting_.pop_front();
    }
    (void)RunGuarded("slow_work", task);
  }
}

}  // namespace strobe::http
