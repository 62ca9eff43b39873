// The operator's metrics. Their cardinality is low: pod names appear only in statuses and
// manifests. The metrics of the controller and the API client have controller-runtime's names, so
// that its dashboards work.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "capture/ports.h"
#include "common/base/mutex.h"
#include "operator/kube/work_queue.h"
#include "operator/metrics/admission_metrics.h"
#include "operator/request/ports.h"
#include "operator/schedule/schedule_ports.h"
#include "operator/trigger/ports.h"

namespace prometheus {
class Registry;
}  // namespace prometheus

namespace strobe::metrics {

// The metrics of what captures tell about their jobs. Labels: the namespace only.
class ReportMetrics {
 public:
  explicit ReportMetrics(prometheus::Registry& registry);  // Must outlive it.
  ~ReportMetrics();

  // What the report does not know is not observed.
  void Observe(const std::string& ns, const capture::JobReport& report);

 private:
  struct Families;
  const std::unique_ptr<Families> families_;
};

class OperatorMetrics final : public request::CaptureMetrics, public kube::QueueObserver {
 public:
  OperatorMetrics();
  ~OperatorMetrics() override;

  void AttemptEnded(const objects::ProfileRequest& request,
                    const capture::AttemptProgress& progress) override;
  void CaptureEnded(const objects::ProfileRequest& request, request::CaptureEnd end) override;
  void ActiveCaptures(std::size_t count) override;

  // What the webhooks tell.
  AdmissionMetrics& admission();
  schedule::Metrics& schedules();
  trigger::AlertReceiverObserver& receiver();
  trigger::Metrics& triggers();

  // `result` is delivered, refused, undelivered or dropped.
  void Notified(const std::string& result);
  // `result` is ok, denied, invalid, failed or limited.
  void Enrolled(const std::string& result);
  // `reason` is unauthenticated, invalid or busy.
  void SignsRefused(const std::string& reason);
  // Counts refused connections. `server` is enrollment or worker (a sidecar with a wrong identity);
  // `reason` is "handshake" or the name of a PeerVerdict.
  void PeerRefused(const std::string& server, const std::string& reason);
  // The requests of a namespace whose first attempt has not begun.
  struct Pending {
    std::size_t count = 0;
    Nanos oldest{};  // Since the creation of the oldest one.
  };
  // Sets what waits in each namespace. Call it before Render.
  void PendingRequests(const std::map<std::string, Pending>& by_namespace);
  // Sets the validity of the newest certificate authority.
  void NewestAuthority(WallTime from, WallTime until);

  // `result` is success, requeue_after or error.
  void Reconciled(const std::string& result, Nanos took);
  void Added() override;
  void Started(Nanos waited) override;
  void Finished(Nanos took) override;
  void Retried() override;
  // Sets the current load. Call it before Render.
  void QueueLoad(const kube::WorkQueue::Load& load, int workers);
  void Requested(const std::string& method, int status, Nanos took);
  // The lease's namespace and name tell several installations in one cluster apart.
  void Leading(bool leading, const std::string& lease_ns, const std::string& lease);

  // The metrics in Prometheus's text format.
  std::string Render() const;

 private:
  struct Families;
  const std::unique_ptr<Families> families_;
  Mutex mutex_;
  std::set<std::string> known_pending_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe::metrics
