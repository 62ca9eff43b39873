// Writes the status of ProfileTriggers, and removes their old runs. Alerts are decided elsewhere
// (trigger_sink.h). Statuses are written at most so often that a storm of alerts is not a storm of
// writes: the notes of what came of alerts add up meanwhile.
#pragma once
#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/token_bucket.h"
#include "operator/controller/ports.h"
#include "operator/controller/trigger_notebook.h"
#include "operator/controller/trigger_ports.h"

namespace strobe {

// From a change to the write of a trigger's status.
inline constexpr Nanos kTriggerStatusDelay = std::chrono::seconds(1);

class TriggerReconciler {
 public:
  // All arguments outlive it. `leads`: whether this operator is the one that acts on what has
  // changed. Others only tell what came of the alerts that they were sent.
  TriggerReconciler(const Clock& clock, TriggerCluster& cluster, TriggerNotebook& notebook,
                    std::function<bool()> leads);

  // `key` is "namespace/name"; each key by one thread at a time. An error is worth another try.
  absl::StatusOr<ReconcileResult> Reconcile(const std::string& key);

 private:
  absl::StatusOr<ReconcileResult> ReconcileNoted(const ProfileTrigger& trigger,
                                                 TriggerNotes& notes);
  void Tell(const ProfileTrigger& trigger, const TriggerStatus& status, const TriggerNotes& notes);
  bool MayWrite();

  const Clock& clock_;
  TriggerCluster& cluster_;
  TriggerNotebook& notebook_;
  const std::function<bool()> leads_;
  Mutex mutex_;
  TokenBucket writes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe
