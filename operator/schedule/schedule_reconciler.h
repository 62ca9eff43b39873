// Brings one ProfileSchedule closer to what it asks for. What to do follows from the object and its
// runs alone (core/schedule_decision.h). A run is created before the status tells of it, and its
// name follows from the time at which it is due. So an operator that ends in between, or another
// leader, finds the run and does not create it again.
#pragma once
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/fair/token_bucket.h"
#include "operator/request/ports.h"
#include "operator/schedule/schedule_ports.h"

namespace strobe::schedule {

class Reconciler {
 public:
  // All arguments outlive it.
  Reconciler(const Clock& clock, Cluster& cluster, Metrics& metrics)
      : clock_(clock), cluster_(cluster), metrics_(metrics) {}

  // `key` is "namespace/name"; each key by one thread at a time. An error is worth another try.
  absl::StatusOr<kube::ReconcileResult> Reconcile(const std::string& key);

 private:
  // Whether the namespace may decide on a time that has passed, which starts or skips a run.
  bool MayDecide(const std::string& ns);
  void Tell(const ProfileSchedule& schedule, const ScheduleStatus& status);

  const Clock& clock_;
  Cluster& cluster_;
  Metrics& metrics_;
  Mutex mutex_;
  std::map<std::string, fair::TokenBucket> decisions_ ABSL_GUARDED_BY(mutex_);  // By namespace.
};

}  // namespace strobe::schedule
