// A bounded queue of tasks that take long, and the few threads that run them in order.
#pragma once
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"

namespace strobe::http {

// Safe for concurrent use.
class SlowWork {
 public:
  using Task = std::function<void()>;

  // `threads` start one by one with the first tasks. At most `max_waiting` tasks wait.
  SlowWork(int threads, std::size_t max_waiting) : size_(threads), max_waiting_(max_waiting) {}
  ~SlowWork() { Stop(); }
  SlowWork(const SlowWork&) = delete;
  SlowWork& operator=(const SlowWork&) = delete;

  // False when too many tasks wait already, or after Stop.
  bool Add(Task task);
  // Drops the tasks that wait and returns when the running ones have ended.
  void Stop();

 private:
  void Run();

  const int size_;
  const std::size_t max_waiting_;
  Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Task> waiting_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe::http
