// Keeps ProfileTriggers going: watches them, decides on the alerts that this process is sent, and
// writes what came of them. Every operator decides, because an alert may be sent to any; only the
// leader removes old runs.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "operator/kube/object_cache.h"
#include "operator/kube/reconcile_threads.h"
#include "operator/kube/reflector.h"
#include "operator/kube/work_queue.h"
#include "operator/trigger/trigger_cluster.h"
#include "operator/trigger/trigger_reconciler.h"
#include "operator/trigger/trigger_sign_sink.h"
#include "operator/trigger/trigger_sink.h"

namespace strobe::trigger {

class Keeper {
 public:
  // `ns` is empty for all namespaces. All references outlive it. `leads` as for Reconciler.
  Keeper(access::RunStarter::Dependencies dependencies, const std::string& ns, Nanos watch_timeout,
         kube::WorkQueue& queue, Metrics& metrics, std::function<bool()> leads);

  // Watches the triggers from now on. Called once; alerts are taken when all are known.
  void Start();
  // This process leads from now on.
  void ReconcileAll();
  // A ProfileRequest has changed, or is gone.
  void RequestChanged(const std::string& key);
  // No run is started after it returns.
  void Stop();

  AlertSink& sink() { return sink_; }
  SignSink& signs() { return signs_; }

 private:
  void TriggerChanged(const std::string& key);

  const Clock& clock_;
  kube::WorkQueue& queue_;
  const kube::ObjectCache& requests_;
  kube::ObjectCache cache_;
  Table table_;
  Notebook notebook_;
  KubeTriggerCluster cluster_;
  TriggerSink sink_;
  TriggerSignSink signs_;
  Reconciler reconciler_;
  kube::Reflector reflector_;
  std::unique_ptr<kube::ReconcileThreads>
      threads_;  // Null until Start. Last: uses all of the above.
};

}  // namespace strobe::trigger
