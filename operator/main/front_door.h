// What others call this process for: the webhooks and the sidecars' enrollment, with the
// certificates that both are served with.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "common/grpc_tls/credentials.h"
#include "common/http/http_server.h"
#include "operator/admission/webhooks.h"
#include "operator/config/config.h"
#include "operator/enroll/authority_keeper.h"
#include "operator/enroll/enrollment_service.h"
#include "operator/kube/authority_secret.h"
#include "operator/kube/token_review.h"
#include "operator/metrics/operator_metrics.h"

namespace grpc {
class Server;
}

namespace strobe {

AuthorityRules RulesOf(const TlsConfig& tls);

class FrontDoor {
 public:
  struct Dependencies {
    const Clock& clock;
    const OperatorConfig& config;
    std::string space{};  // The operator's own.
    kube::Client& client;
    Gatekeeper& gatekeeper;
    OperatorMetrics& metrics;
    std::function<bool()> leading;
  };

  // Returns at once; doors open when there are certificates, which `opened` tells, or `failed` why
  // they cannot. Both are called from a thread of its own.
  FrontDoor(Dependencies dependencies, std::function<void()> opened,
            std::function<void(absl::Status)> failed);
  ~FrontDoor();
  FrontDoor(const FrontDoor&) = delete;
  FrontDoor& operator=(const FrontDoor&) = delete;

  bool open() const { return open_; }
  // For calling sidecars; once open. Null without TLS.
  std::shared_ptr<grpc::ChannelCredentials> WorkerCredentials();
  void Drain();
  // See AuthorityKeeper.
  std::vector<std::string> SealKeys() const { return keeper_.SealKeys(); }

 private:
  void Run();
  absl::Status Open();
  absl::Status OpenEnrollment();
  absl::Status OpenWebhooks();
  absl::StatusOr<Identity> ForeignIdentity() const;
  absl::Status ReadClientAuthorities();
  void Tend();

  const Dependencies deps_;
  const std::function<void()> opened_;
  const std::function<void(absl::Status)> failed_;
  Notification certified_or_stopped_;  // Before the keeper, which sets it.
  kube::AuthoritySecret store_;
  kube::KubeTokenReviewer reviewer_;
  AuthorityKeeper keeper_;
  EnrollmentService enrollment_;
  std::optional<LiveChannelCredentials> worker_credentials_;
  std::optional<LiveIdentity> foreign_;  // The webhooks' certificate when it is not ours.
  Mutex mutex_;
  std::string client_authorities_ ABSL_GUARDED_BY(mutex_);  // PEM.
  std::unique_ptr<grpc::Server> enrollment_server_;
  std::unique_ptr<HttpServer> webhooks_;
  std::atomic<bool> open_{false};
  Notification stop_;
  std::thread thread_;
};

}  // namespace strobe
