// The operator's servers that need its certificates: enrollment and signs for the sidecars,
// webhooks for the API server, and the receiver of alerts.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/grpc_tls/grpc_server.h"
#include "common/http/server.h"
#include "common/tls/identity_files.h"
#include "operator/access/gatekeeper.h"
#include "operator/admission/kube_namespace_limits.h"
#include "operator/admission/webhooks.h"
#include "operator/config/config.h"
#include "operator/enroll/authority_keeper.h"
#include "operator/enroll/enrollment_service.h"
#include "operator/enroll/token_review.h"
#include "operator/kube/service_address.h"
#include "operator/main/certificates.h"
#include "operator/main/milestones.h"
#include "operator/metrics/operator_metrics.h"
#include "operator/trigger/alert_receiver.h"
#include "operator/trigger/sign_service.h"

namespace strobe {

// Serves the admission webhooks over TLS. Its certificate is the operator's own, or one of somebody
// else's in files that are read again while it runs. Safe for concurrent use, but ReloadFiles is
// for one thread.
class WebhookServer {
 public:
  struct Dependencies {
    const Clock& clock;
    const config::OperatorConfig& config;
    std::string ns{};  // The operator's own.
    const enroll::AuthorityKeeper& keeper;
    access::Gatekeeper& gatekeeper;
    admission::WebhookObserver& observer;
    admission::KubeNamespaceLimits& limits;
    kube::ServiceAddress& service_address;
  };

  // Fails if a configured file cannot be read or the address cannot be bound. The keeper is ready;
  // all dependencies outlive the server.
  static absl::StatusOr<std::unique_ptr<WebhookServer>> Start(Dependencies dependencies);
  WebhookServer(const WebhookServer&) = delete;
  WebhookServer& operator=(const WebhookServer&) = delete;

  // Takes over what has changed in the configured files. Where a file cannot be read, what was read
  // before stays in use.
  void ReloadFiles() { files_->ReadAgain(); }
  // From now on each answer ends its connection, so that the API server turns to another replica.
  void Drain() { server_->Drain(); }

 private:
  explicit WebhookServer(Dependencies dependencies) : deps_(std::move(dependencies)) {}
  absl::Status Listen();
  // Pods that cannot resolve the Service's name use this address; empty if it is not known.
  std::string EnrollmentAddress() const;

  const Dependencies deps_;
  std::unique_ptr<IdentityFiles> files_;  // Without a certificate, the operator's own is used.
  std::unique_ptr<http::Server> server_;  // Last: its threads use the rest.
};

class TlsServers {
 public:
  struct Dependencies {
    const Clock& clock;
    const config::OperatorConfig& config;
    std::string ns{};  // The operator's own.
    kube::Client& client;
    const enroll::AuthorityKeeper& keeper;
    access::Gatekeeper& gatekeeper;
    metrics::OperatorMetrics& metrics;
    Milestones& milestones;
    trigger::SignSink& signs;
    trigger::AlertSink* alerts = nullptr;  // Decides on alerts; null if none are received.
  };

  // All dependencies outlive it. `failed` is called at most once, from a thread of its own, with
  // the reason why the operator cannot serve.
  TlsServers(Dependencies dependencies, std::function<void(absl::Status)> failed);
  // The process must be ending already: see Milestones::Stop.
  ~TlsServers();
  TlsServers(const TlsServers&) = delete;
  TlsServers& operator=(const TlsServers&) = delete;

  // Returns at once. Serves as soon as there are certificates, and then reaches
  // Milestone::kServing.
  void Start();
  // For a replica that is about to end; see WebhookServer. Only once it serves.
  void Drain();

 private:
  void Run();
  absl::Status Serve();
  absl::Status ServeEnrollment();
  absl::Status ServeWebhooks();
  absl::Status ServeAlerts();
  // Reads files again and counts pods now and then, until the process ends.
  void Maintain();
  void CountUninjectedPods();

  const Dependencies deps_;
  const std::function<void(absl::Status)> failed_;
  enroll::KubeTokenReviewer reviewer_;
  enroll::EnrollmentService enrollment_service_;
  std::optional<trigger::SignService>
      sign_service_;  // Needs the keeper's certificate, which comes later.
  admission::KubeNamespaceLimits limits_;
  kube::ServiceAddress service_address_;
  std::unique_ptr<GrpcServer> enrollment_;            // Null while or if it is not served.
  std::unique_ptr<WebhookServer> webhooks_;           // Null while or if it is not served.
  std::unique_ptr<trigger::AlertReceiver> receiver_;  // Null while or if it is not served.
  std::optional<MonoTime> counted_;                   // When pods were counted; of the thread.
  std::thread thread_;
};

}  // namespace strobe
