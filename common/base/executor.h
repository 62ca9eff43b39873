// A thread that owns some state. Other threads post tasks that change it.
#pragma once
#include <functional>
#include <map>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace strobe {

// Runs tasks one at a time, in the order of their due times. Post may be called from any thread and
// never waits for a running task. Tasks that have not started when the executor is destroyed are
// dropped.
class Executor {
 public:
  using Task = std::function<void()>;
  virtual ~Executor() = default;
  virtual void PostAfter(Nanos delay, Task task) = 0;
  void Post(Task task) { PostAfter(Nanos{0}, std::move(task)); }
};

class ThreadExecutor final : public Executor {
 public:
  ThreadExecutor();
  ~ThreadExecutor() override;  // Waits for the running task.
  ThreadExecutor(const ThreadExecutor&) = delete;
  ThreadExecutor& operator=(const ThreadExecutor&) = delete;

  void PostAfter(Nanos delay, Task task) override;

 private:
  void Run();

  Mutex mutex_;
  // Tasks by due time. Tasks with the same due time run in the order of posting.
  std::multimap<MonoTime, Task> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // Declared last: the thread uses the members above.
};

}  // namespace strobe
