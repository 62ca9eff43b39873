// A bounded queue of tasks that take long, and the few threads that run them. Askers take turns, so
// that one who asks much delays only their own tasks.
#pragma once
#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "common/fair/fair_queue.h"

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
  struct OwnedTask {
    std::string asker{};
    Task task{};
  };
  // Add bounds it.
  static constexpr std::size_t kUnbounded = std::numeric_limits<std::size_t>::max();

  void Run();
  // Whether one more of the asker's tasks may run.
  bool MayRun(const std::string& asker) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const WorkLimits limits_;
  Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  fair::FairQueue<OwnedTask> waiting_ ABSL_GUARDED_BY(mutex_){kUnbounded};
  std::map<std::string, int> running_ ABSL_GUARDED_BY(mutex_);  // By asker; none is 0.
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe::http
