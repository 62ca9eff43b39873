// Keys to reconcile. A key never runs twice at once; one that is added while it runs is queued
// again when it is done. Safe for concurrent use; every waiter is released by ShutDown.
#pragma once
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "collector/base/clock.h"
#include "collector/base/mutex.h"

namespace strobe {

class WorkQueue {
 public:
  explicit WorkQueue(const Clock& clock) : clock_(clock) {}

  void Add(const std::string& key);
  void AddAfter(const std::string& key, Nanos delay);
  // Per key 5 ms doubling up to 1000 s, until Forget.
  void AddRateLimited(const std::string& key);
  void Forget(const std::string& key);

  // Blocks for the next key; nothing once shut down and drained.
  std::optional<std::string> Get();
  // Must follow every Get.
  void Done(const std::string& key);
  void ShutDown();
  std::size_t depth() const;

 private:
  void AddLocked(const std::string& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock& clock_;
  mutable Mutex mutex_;
  std::deque<std::string> queue_ ABSL_GUARDED_BY(mutex_);     // What to run, in order.
  std::set<std::string> dirty_ ABSL_GUARDED_BY(mutex_);       // Needs a run.
  std::set<std::string> processing_ ABSL_GUARDED_BY(mutex_);  // Runs now.
  std::multimap<MonoTime, std::string> later_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int> failures_ ABSL_GUARDED_BY(mutex_);
  bool shutting_down_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace strobe
