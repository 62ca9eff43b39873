// Writes the status of ProfileTriggers, and removes their old runs. Alerts are decided elsewhere
// (trigger_sink.h). The rate of writes is limited, so that a storm of alerts does not become a
// storm of writes; meanwhile the notes of what came of alerts add up.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/fair/token_bucket.h"
#include "operator/request/ports.h"
#include "operator/trigger/ports.h"
#include "operator/trigger/recent_map.h"
#include "operator/trigger/trigger_notebook.h"

namespace strobe::trigger {

// The delay from a change to the write of a trigger's status, and the pause between two such
// writes. In a storm of alerts there is something new to write all the time.
inline constexpr Nanos kTriggerStatusDelay = std::chrono::seconds(1);
inline constexpr Nanos kTriggerStatusPause = std::chrono::seconds(5);

class Reconciler {
 public:
  // All arguments outlive it. `leads`: whether this operator is the one that acts on what has
  // changed. Others only tell what came of the alerts that they were sent.
  Reconciler(const Clock& clock, Cluster& cluster, Notebook& notebook, std::function<bool()> leads);

  // `key` is "namespace/name"; each key by one thread at a time. An error is worth another try.
  absl::StatusOr<kube::ReconcileResult> Reconcile(const std::string& key);

 private:
  absl::StatusOr<kube::ReconcileResult> ReconcileNoted(const ProfileTrigger& trigger, Notes& notes);
  void Tell(const ProfileTrigger& trigger, const TriggerStatus& status, const Notes& notes);
  // After how long the trigger's status may be written; none = now.
  std::optional<Nanos> WaitToWrite(const std::string& uid);
  void NoteWritten(const std::string& uid);

  const Clock& clock_;
  Cluster& cluster_;
  Notebook& notebook_;
  const std::function<bool()> leads_;
  Mutex mutex_;
  fair::TokenBucket writes_ ABSL_GUARDED_BY(mutex_);
  RecentMap<MonoTime> written_ ABSL_GUARDED_BY(mutex_);  // Last write, by the trigger's UID.
};

}  // namespace strobe::trigger
