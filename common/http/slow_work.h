// A bounded queue of tasks that take long, and the few threads that run them. Askers take turns, so
// that one who asks much delays only their own tasks.
#pragma once
#include <cstddef>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"

namespace strobe::http {

// How much of a server an answer takes.
enum class Load {
  kShort,  // Some milliseconds of a processor.
  kWaits,  // It may wait for others, such as an object store, but needs little itself.
  kHeavy   // Much processor time or memory.
};

// What a request costs, and who pays.
struct Work {
  Load load = Load::kShort;
  std::string asker{};  // Whose share it takes.
};

struct WorkLimits {
  int threads = 2;
  int each = std::numeric_limits<int>::max();  // How many threads one asker's tasks may hold.
  // How many tasks may wait, and how many of one asker. An asker of whom none waits may always add
  // one: each waits for it on a connection, and connections are bounded.
  std::size_t waiting = 16, waiting_each = std::numeric_limits<std::size_t>::max();
  int niceness = 0;  // With 10, the threads give way to all others of the machine.
};

// Safe for concurrent use.
class SlowWork {
 public:
  using Task = std::function<void()>;

  // The threads start one by one with the first tasks.
  explicit SlowWork(const WorkLimits& limits) : limits_(limits) {}
  ~SlowWork() { Stop(); }
  SlowWork(const SlowWork&) = delete;
  SlowWork& operator=(const SlowWork&) = delete;

  // False when too many tasks wait already, or after Stop.
  bool Add(const std::string& asker, Task task);
  // Drops the tasks that wait and returns when the running ones have ended.
  void Stop();

 private:
  struct Asker {
    std::deque<Task> waiting;
    int running = 0;
  };
  using Askers = std::map<std::string, Asker>;  // Only with tasks that wait or run.
  struct Chosen {
    Askers::iterator asker;
    Task task;
  };

  void Run();
  bool CanRun(const Asker& asker) const {
    return !asker.waiting.empty() && asker.running < limits_.each;
  }
  bool CanRunAny() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The next task, of the asker whose turn it is.
  Chosen Take() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteEnd(Askers::iterator asker);

  const WorkLimits limits_;
  Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Askers askers_ ABSL_GUARDED_BY(mutex_);
  std::string last_ ABSL_GUARDED_BY(mutex_);  // The asker who had the last turn.
  std::size_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe::http
