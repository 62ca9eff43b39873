// The queue of keys ("namespace/name") to reconcile, with the semantics of client-go's work queue.
// A key is never processed twice at once; one that is added while it is processed is queued again
// afterwards. Namespaces take turns and share the threads, so that a thousand keys of one, or keys
// that take long, do not delay another's.
// Safe for concurrent use. ShutDown releases every thread that waits in Get.
#pragma once
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace strobe::kube {

// Observes a queue, for metrics. Called under the queue's mutex: implementations must be quick and
// must not call the queue.
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
  // The clock and the observer must outlive the queue.
  explicit WorkQueue(const Clock& clock, QueueObserver* observer = nullptr)
      : clock_(clock), observer_(observer) {}

  void Add(const std::string& key);
  // Adds the key after `delay`. A key has one timer, the earliest that was asked for; processing
  // the key removes it.
  void AddAfter(const std::string& key, Nanos delay);
  // Adds the key after a delay that doubles with every call, from 5 ms to 30 s, until Forget.
  void AddRateLimited(const std::string& key);
  void Forget(const std::string& key);

  // `threads` take keys. A namespace then has at most as many of them as are free, so that one is
  // always left for a namespace that has none. Called before the first Get.
  void ShareAmong(std::size_t threads);
  // Blocks until there is a key; none after ShutDown.
  std::optional<std::string> Get();
  // The caller has processed the key that Get returned. Must follow every Get.
  void Done(const std::string& key);
  // Drops the keys that wait. Keys that are processed now still need Done.
  void ShutDown();
  struct Load {
    std::size_t waiting = 0, running = 0;  // Keys queued, and keys processed now.
    Nanos running_total{};                 // How long the keys processed now have taken, in all.
    Nanos longest{};                       // The longest of these times.
  };
  Load load() const;

 private:
  void AddLocked(const std::string& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Push(const std::string& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string Pop() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The next namespace in turn that may have one more thread; the end if there is none.
  std::deque<std::string>::iterator Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropTimer(const std::string& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock& clock_;
  QueueObserver* const observer_;
  mutable Mutex mutex_;
  // Queued keys by namespace, and the order in which the namespaces that have keys take turns.
  std::map<std::string, std::deque<std::string>> queues_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> order_ ABSL_GUARDED_BY(mutex_);
  std::size_t queued_ ABSL_GUARDED_BY(mutex_) = 0;
  // Keys that need processing, and since when. Those in processing_ are not queued until Done.
  std::map<std::string, MonoTime> dirty_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, MonoTime> processing_ ABSL_GUARDED_BY(mutex_);  // Since when.
  std::map<std::string, std::size_t> running_ ABSL_GUARDED_BY(mutex_);  // Keys, by namespace.
  std::size_t threads_ ABSL_GUARDED_BY(mutex_) = 0;                     // 0 = not shared.
  // Timers by due time, and the due time of each key's timer.
  std::multimap<MonoTime, std::string> later_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, MonoTime> timers_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int> failures_ ABSL_GUARDED_BY(mutex_);
  bool shutting_down_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace strobe::kube
