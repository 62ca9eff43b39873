// Keys ("namespace/name") to reconcile. A key never runs twice at once; one that is added while it
// runs is queued again when it is done. Namespaces take turns, so that a thousand keys of one do
// not hold up another's. Safe for concurrent use; every waiter is released by ShutDown.
#pragma once
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace strobe {

// What happens in a queue, for metrics. Called under the queue's mutex: short, and never back.
class QueueObserver {
 public:
  virtual ~QueueObserver() = default;
  virtual void Added() = 0;
  virtual void Started(Nanos waited) = 0;
  virtual void Finished(Nanos took) = 0;
  virtual void Retried() = 0;
};

class WorkQueue {
 public:
  // The observer outlives the queue.
  explicit WorkQueue(const Clock& clock, QueueObserver* observer = nullptr)
      : clock_(clock), observer_(observer) {}

  void Add(const std::string& key);
  // A key has one timer, the earliest that was asked for; it is forgotten when the key runs.
  void AddAfter(const std::string& key, Nanos delay);
  // Per key 5 ms doubling up to 1000 s, until Forget.
  void AddRateLimited(const std::string& key);
  void Forget(const std::string& key);

  // Blocks for the next key; nothing once shut down and drained.
  std::optional<std::string> Get();
  // Must follow every Get.
  void Done(const std::string& key);
  void ShutDown();
  struct Load {
    std::size_t waiting = 0, running = 0;
    Nanos running_total{}, longest{};  // For how long those that run now have been running.
  };
  Load load() const;

 private:
  void AddLocked(const std::string& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Push(const std::string& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string Pop() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropTimer(const std::string& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock& clock_;
  QueueObserver* const observer_;
  mutable Mutex mutex_;
  // What to run, in order, by namespace, and whose turn it is: each namespace that has something.
  std::map<std::string, std::deque<std::string>> queues_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> turns_ ABSL_GUARDED_BY(mutex_);
  std::size_t queued_ ABSL_GUARDED_BY(mutex_) = 0;
  // Needs a run; since when.
  std::map<std::string, MonoTime> dirty_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, MonoTime> processing_ ABSL_GUARDED_BY(mutex_);  // Runs now; since when.
  std::multimap<MonoTime, std::string> later_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, MonoTime> timers_ ABSL_GUARDED_BY(mutex_);  // By key; what is in later_.
  std::map<std::string, int> failures_ ABSL_GUARDED_BY(mutex_);
  bool shutting_down_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace strobe
