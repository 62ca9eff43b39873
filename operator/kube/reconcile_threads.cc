#include "operator/kube/reconcile_threads.h"

#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "common/base/guard.h"
#include "common/base/log.h"
#include "common/base/strings.h"

namespace strobe::kube {

ReconcileThreads::ReconcileThreads(const Clock& clock, int count, WorkQueue& queue,
                                   Reconcile reconcile, Observer reconciled)
    : clock_(clock),
      queue_(queue),
      reconcile_(std::move(reconcile)),
      reconciled_(std::move(reconciled)) {
  for (int i = 0; i < count; ++i)
    threads_.emplace_back([this] { RunThread("reconcile", [this] { Run(); }); });
}

ReconcileThreads::~ReconcileThreads() {
  queue_.ShutDown();
  for (std::thread& thread : threads_) thread.join();
}

void ReconcileThreads::Run() {
  while (const std::optional<std::string> key = queue_.Get()) ReconcileOnce(*key);
}

void ReconcileThreads::ReconcileOnce(const std::string& key) {
  const absl::Cleanup done = [&] { queue_.Done(key); };
  const MonoTime began = clock_.MonoNow();
  const absl::StatusOr<ReconcileResult> result =
      RunGuarded("reconcile", [&] { return reconcile_(key); });
  const Nanos took = clock_.MonoNow() - began;
  if (!result.ok()) {
    // A conflict only means that the object has changed; the watch brings it again.
    if (!absl::IsAborted(result.status()))
      LogWarning("reconcile failed", {{"request", key}, {"error", MessageOf(result.status())}});
    reconciled_("error", took);
    queue_.AddRateLimited(key);
    return;
  }
  reconciled_(result->requeue_after ? "requeue_after" : "success", took);
  queue_.Forget(key);
  if (result->requeue_after) queue_.AddAfter(key, *result->requeue_after);
}

}  // namespace strobe::kube
