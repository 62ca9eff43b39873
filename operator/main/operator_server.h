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
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/http/server.h"
#include "operator/access/kube_gatekeeper.h"
#include "operator/access/policy_keeper.h"
#include "operator/config/config.h"
#include "operator/kube/cpprest_transport.h"
#include "operator/kube/leader_elector.h"
#include "operator/kube/reflector.h"
#include "operator/kube/work_queue.h"
#include "operator/main/capture_engine.h"
#include "operator/main/certificates.h"
#include "operator/main/milestones.h"
#include "operator/main/parts.h"
#include "operator/main/tls_servers.h"
#include "operator/metrics/operator_metrics.h"
#include "operator/request/notifier.h"
#include "operator/request/request_cluster.h"
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
  // See CaptureEngine. For one thread.
  void ReleaseMemory() { engine_.ReleaseMemory(); }
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
  struct Clients {
    kube::Client general;
    kube::Client lease;  // Apart, so that renewing the lease queues behind nothing else.
    kube::EventRecorder events;

    void EndWaits() {
      general.EndWaits();
      lease.EndWaits();
    }
  };
  struct Queues {
    kube::WorkQueue requests, schedules, triggers;
  };

  OperatorServer(const Clock& clock, config::OperatorConfig config, Access access,
                 std::function<void()> failed);

  access::RunStarter::Dependencies RunDependencies();
  void RequestChanged(const std::string& key);
  std::vector<std::string> SealKeys() const;
  // In the order in which they start. They stop in reverse, before what they use.
  std::vector<Part> MakeParts();
  void StartTlsServers();
  absl::Status ServeHttp();
  http::Page Metrics();
  // Waits until this process leads and has what captures need.
  void BeginReconciling();

  // Destroyed in reverse order: every member comes after those that its threads use.
  const Clock& clock_;
  const config::OperatorConfig config_;
  Access access_;
  OperatorFailure failure_;
  metrics::OperatorMetrics metrics_;
  Milestones milestones_;

  Clients clients_;
  kube::ObjectCache requests_;
  Queues queues_;
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

  CaptureEngine engine_;
  kube::Reflector reflector_;
  std::unique_ptr<http::Server> http_;
  std::thread starter_;
  kube::LeaderElector elector_;
  const Parts parts_;
};

}  // namespace strobe
