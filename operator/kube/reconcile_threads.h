// The threads that take keys from the work queue and reconcile them.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "operator/kube/work_queue.h"

namespace strobe::kube {

struct ReconcileResult {
  // When to reconcile again; none = at the next change.
  std::optional<Nanos> requeue_after{};
};

class ReconcileThreads {
 public:
  // Called for one key at a time, for several keys at once. A key whose reconciliation failed comes
  // again, later each time; otherwise it comes again when its result says so.
  using Reconcile = std::function<absl::StatusOr<ReconcileResult>(const std::string& key)>;
  // Called after each reconciliation, for metrics. `result` is success, requeue_after or error.
  using Observer = std::function<void(const std::string& result, Nanos took)>;

  // Starts `count` threads. Clock and queue outlive them.
  ReconcileThreads(const Clock& clock, int count, WorkQueue& queue, Reconcile reconcile,
                   Observer reconciled);
  // Shuts the queue down and returns when its keys are reconciled.
  ~ReconcileThreads();
  ReconcileThreads(const ReconcileThreads&) = delete;
  ReconcileThreads& operator=(const ReconcileThreads&) = delete;

 private:
  void Run();
  void ReconcileOnce(const std::string& key);

  const Clock& clock_;
  WorkQueue& queue_;
  const Reconcile reconcile_;
  const Observer reconciled_;
  std::vector<std::thread> threads_;  // Last: they start when the rest is there.
};

}  // namespace strobe::kube
