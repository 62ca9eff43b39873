// A whole operator: the API server's clients, the cache of requests, leader election, servers and
// reconciler, built from its configuration.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "capture/attempt_evidence.h"
#include "capture/evidence_memory.h"
#include "capture/report_thread.h"
#include "capture/worker/grpc_worker.h"
#include "common/base/clock.h"
#include "common/base/executor.h"
#include "common/base/mutex.h"
#include "common/http/http_server.h"
#include "operator/access/kube_gatekeeper.h"
#include "operator/access/policy_keeper.h"
#include "operator/config/config.h"
#include "operator/kube/cpprest_transport.h"
#include "operator/kube/leader_elector.h"
#include "operator/kube/reconcile_threads.h"
#include "operator/kube/reflector.h"
#include "operator/kube/work_queue.h"
#include "operator/main/certificates.h"
#include "operator/main/milestones.h"
#include "operator/main/tls_servers.h"
#include "operator/metrics/operator_metrics.h"
#include "operator/request/capture_count.h"
#include "operator/request/notifier.h"
#include "operator/request/request_cluster.h"
#include "operator/request/request_reconciler.h"
#include "operator/schedule/schedule_keeper.h"
#include "operator/trigger/trigger_keeper.h"

namespace strobe {

// Keeps the first failure of the operator's parts. Safe for concurrent use.
class OperatorFailure {
 public:
  explicit OperatorFailure(std::function<void()> failed) : failed_(std::move(failed)) {}

  void Report(const absl::Status& failure) {
    {
      MutexLock lock(&mutex_);
      first_.Update(failure);
    }
    failed_();
  }
  absl::Status first() const {
    MutexLock lock(&mutex_);
    return first_;
  }

 private:
  const std::function<void()> failed_;
  mutable Mutex mutex_;
  absl::Status first_ ABSL_GUARDED_BY(mutex_);
};

class OperatorServer {
 public:
  // `failed` is called at most once, from another thread and after Start, if the operator has to
  // end. An error says what is wrong with the credentials or the lease's times. The clock outlives
  // the operator.
  static absl::StatusOr<std::unique_ptr<OperatorServer>> Create(const Clock& clock,
                                                                config::OperatorConfig config,
                                                                const std::string& kubeconfig,
                                                                std::function<void()> failed);
  ~OperatorServer();
  OperatorServer(const OperatorServer&) = delete;
  OperatorServer& operator=(const OperatorServer&) = delete;

  // Returns at once; fails if the port of /metrics is taken. Reconciles once the cache is filled,
  // the lease is held and the webhooks are served. A lease that is lost ends the process.
  absl::Status Start();
  // Returns memory to the system once large captures are over. For one thread.
  void ReleaseMemory();
  // Ends in good order: unready first, then reconciling, then the lease. Captures go on at the
  // workers, where the next operator finds them; if the operator's namespace is being deleted they
  // are cancelled and all requests are let go. Returns why `failed` was called.
  absl::Status Stop();

 private:
  struct Access {
    kube::Credentials credentials{};
    kube::LeaseOptions lease{};
    std::shared_ptr<kube::Transport> transport{}, lease_transport{};
    std::optional<request::Receiver> receiver{};  // Gets notifications about captures that ended.
  };
  struct Queues {
    kube::WorkQueue requests, schedules, triggers;
  };

  OperatorServer(const Clock& clock, config::OperatorConfig config, Access access,
                 std::function<void()> failed);

  bool has_webhooks() const { return !config_.webhook.listen.empty(); }
  bool receives_alerts() const { return !config_.alert_receiver.listen.empty(); }
  access::RunStarter::Dependencies RunDependencies();
  void RequestChanged(const std::string& key);
  std::vector<std::string> SealKeys() const;
  void StartTlsServers();
  absl::Status ServeHttp();
  void BeginReconciling();
  http::Page Readiness() const;
  http::Page Metrics();
  // Called when Strobe is removed, because no operator will come after this one to do it.
  void RetireCaptures();

  // Destroyed in reverse order: every member comes after those that its threads use.
  const Clock& clock_;
  const config::OperatorConfig config_;
  Access access_;
  OperatorFailure failure_;
  metrics::OperatorMetrics metrics_;
  Milestones milestones_;

  kube::Client client_;
  kube::Client lease_client_;  // Apart, so that renewing the lease queues behind nothing else.
  kube::EventRecorder events_;
  kube::ObjectCache requests_;
  Queues queues_;
  kube::Reflector reflector_;
  request::RequestCluster cluster_;
  access::CaptureHistory history_;
  access::PolicyKeeper policies_;
  access::SeriesPolicies series_;

  // Nothing if neither sidecars nor webhooks need TLS.
  std::optional<Certificates> certificates_;
  access::KubeGatekeeper gatekeeper_;
  schedule::Keeper schedules_;
  trigger::Keeper triggers_;
  std::optional<TlsServers> tls_servers_;

  request::CaptureCount captures_;
  ThreadExecutor executor_;  // Before the connector, whose last calls post to it while it ends.
  ThreadExecutor judging_;   // Its tasks post to the other one.
  capture::EvidenceMemory evidence_memory_{capture::AttemptEvidence::kMaxJobBytes};
  capture::GrpcWorkerConnector connector_;
  capture::ReportThread reporter_;
  const std::unique_ptr<request::Notifier> notifier_;  // Null: no notification is sent.
  request::Reconciler reconciler_;
  std::size_t active_before_ = 0;  // Captures at the last ReleaseMemory.

  std::unique_ptr<http::HttpServer> http_;
  std::unique_ptr<kube::ReconcileThreads> reconcile_threads_;  // Set by starter_.
  std::thread starter_;
  kube::LeaderElector elector_;
};

}  // namespace strobe
