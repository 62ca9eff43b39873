// Notes what came of each trigger's alerts, until it is written into the trigger's status. Bounded:
// it has only triggers that exist, and a count for each reason. Safe for concurrent use.
#pragma once
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "operator/trigger/trigger_decision.h"

namespace strobe::trigger {

class Notebook {
 public:
  // `key` is "namespace/name". `refusal` is null if the alert started a capture.
  void Note(const std::string& key, WallTime now, const kube::RunRefusal* refusal,
            const std::string& job) {
    MutexLock lock(&mutex_);
    Notes& notes = notes_[key];
    notes.last_alert = kube::WholeSeconds(now);
    if (refusal == nullptr) return;
    ++notes.skipped[refusal->reason];
    // A repeated alert says nothing new, and must not replace the last reason that did.
    if (refusal->reason == kAlreadyCaptured) return;
    notes.last_skip = SkippedAlert{.time = kube::WholeSeconds(now),
                                   .reason = refusal->reason,
                                   .message = refusal->message,
                                   .job = job};
  }
  // Returns the notes and removes them.
  Notes Take(const std::string& key) {
    MutexLock lock(&mutex_);
    const auto node = notes_.extract(key);
    return node.empty() ? Notes{} : std::move(node.mapped());
  }
  // Puts back notes that could not be written yet.
  void PutBack(const std::string& key, const Notes& notes) {
    if (notes.empty()) return;
    MutexLock lock(&mutex_);
    notes_[key].AddEarlier(notes);
  }

 private:
  Mutex mutex_;
  std::map<std::string, Notes> notes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe::trigger
