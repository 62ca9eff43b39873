// The operator's numbers, low in cardinality: pod names stand in statuses and manifests only. Names
// of the controller and the client equal controller-runtime's, so that its dashboards work.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "operator/admission/ports.h"
#include "operator/controller/ports.h"
#include "operator/controller/work_queue.h"

namespace strobe {

class OperatorMetrics final : public CaptureMetrics, public WebhookObserver, public QueueObserver {
 public:
  OperatorMetrics();
  ~OperatorMetrics() override;

  void AttemptEnded(const ProfileRequest& request, const AttemptProgress& progress) override;
  void CaptureEnded(const ProfileRequest& request, CaptureEnd end) override;
  void ActiveCaptures(std::size_t count) override;

  void Asked(const std::string& webhook) override;
  void Answered(const std::string& webhook, int code, Nanos took) override;
  void Injected(const std::string& space, const std::string& result) override;
  void InjectionDamaged(const std::string& space, const std::string& damage) override;

  // `result` is ok, denied, invalid or failed.
  void Enrolled(const std::string& result);
  // Connections turned away: `server` is enrollment or worker (a sidecar that is not who it should
  // be); `reason` is handshake or PeerVerdict's name.
  void PeerRefused(const std::string& server, const std::string& reason);
  // Of pods that carry the label but cannot be profiled, at the last look.
  void UninjectedPods(const std::map<std::string, int>& by_namespace);

  // `result` is success, requeue_after or error.
  void Reconciled(const std::string& result, Nanos took);
  void Added() override;
  void Started(Nanos waited) override;
  void Finished(Nanos took) override;
  void Retried() override;
  // Of the moment; before Render.
  void QueueLoad(const WorkQueue::Load& load, int workers);
  void Requested(const std::string& method, int status, Nanos took);
  void Leading(bool leading, const std::string& lease);

  // In Prometheus' text format.
  std::string Render() const;

 private:
  struct Families;
  const std::unique_ptr<Families> families_;
  // A namespace that a review names. Strangers can send reviews, so their number is bounded.
  std::string SpaceLabel(const std::string& space);

  std::set<std::string> known_uninjected_;  // Of UninjectedPods' one caller.
  Mutex mutex_;
  std::set<std::string> spaces_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe
