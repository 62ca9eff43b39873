// Keeps ProfileSchedules going: watches them, and starts their runs when they are due. Only the
// leader does.
#pragma once
#include <memory>
#include <string>

#include "operator/kube/object_cache.h"
#include "operator/kube/reconcile_threads.h"
#include "operator/kube/reflector.h"
#include "operator/kube/work_queue.h"
#include "operator/schedule/schedule_cluster.h"
#include "operator/schedule/schedule_reconciler.h"

namespace strobe::schedule {

class Keeper {
 public:
  // `ns` is empty for all namespaces. All references outlive it.
  Keeper(access::RunStarter::Dependencies dependencies, const std::string& ns, Nanos watch_timeout,
         kube::WorkQueue& queue, Metrics& metrics);

  // This process leads, and the cache of requests is filled: watches the schedules from now on.
  // Called once.
  void Start();
  // No run is started after it returns.
  void Stop() { threads_.reset(); }

 private:
  const Clock& clock_;
  kube::WorkQueue& queue_;
  kube::ObjectCache cache_;
  KubeScheduleCluster cluster_;
  Reconciler reconciler_;
  kube::Reflector reflector_;
  std::unique_ptr<kube::ReconcileThreads>
      threads_;  // Null until Start. Last: uses all of the above.
};

// The schedule's key from that of a request; empty if the request's name is not that of a run.
std::string ScheduleKeyOfRun(const std::string& request_key);

}  // namespace strobe::schedule
