// Serves the admission webhooks over TLS. Its certificate is the operator's own, or one of somebody
// else's in files that are read again while it runs. Safe for concurrent use, but ReloadFiles is
// for one thread.
#pragma once
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/http/http_server.h"
#include "common/tls/identity_files.h"
#include "operator/admission/webhooks.h"
#include "operator/config/config.h"
#include "operator/enroll/authority_keeper.h"
#include "operator/kube/service_address.h"

namespace strobe {

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
  std::unique_ptr<IdentityFiles> files_;      // Without a certificate, the operator's own is used.
  std::unique_ptr<http::HttpServer> server_;  // Last: its threads use the rest.
};

}  // namespace strobe
