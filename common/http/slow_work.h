// Work that takes long, in its order, by a few threads.
#pragma once
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"

namespace strobe {

// Safe for concurrent use.
class SlowWork {
 public:
  using Task = std::function<void()>;

  // Threads begin with the first task.
  SlowWork(int threads, std::size_t most_waiting) : size_(threads), most_waiting_(most_waiting) {}
  ~SlowWork() { Stop(); }
  SlowWork(const SlowWork&) = delete;
  SlowWork& operator=(const SlowWork&) = delete;

  // False when too many wait already, or after Stop.
  bool Add(Task task);
  // Drops what waits and returns when what runs has ended.
  void Stop();

 private:
  void Run();

  const int size_;
  const std::size_t most_waiting_;
  Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Task> waiting_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe
