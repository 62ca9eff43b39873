// One thread owns a state; everybody else posts to it.
#pragma once
#include <functional>
#include <map>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace strobe {

// Runs tasks one after the other, in the order in which they fell due. Post is safe from any thread
// and never blocks on a running task. Tasks that are still waiting when the executor ends are
// dropped without being run.
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
  ~ThreadExecutor() override;  // Lets the running task finish.
  ThreadExecutor(const ThreadExecutor&) = delete;
  ThreadExecutor& operator=(const ThreadExecutor&) = delete;

  void PostAfter(Nanos delay, Task task) override;

 private:
  void Run();

  Mutex mutex_;
  // Due time to task; equal times keep the order of posting.
  std::multimap<MonoTime, Task> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // Last: it starts when the rest is there.
};

}  // namespace strobe
