#include "operator/main/tls_servers.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>

#include <utility>

#include "common/base/guard.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "operator/request/pod_list.h"

namespace strobe {
namespace {

constexpr Nanos kMaintainEvery = std::chrono::seconds(5);
// Counting takes a list of all labelled pods, of which there may be thousands.
constexpr Nanos kCountPodsEvery = std::chrono::minutes(5);
// Sidecars send a token and a signing request, or their signs. The bounds protect against
// strangers, who can reach the port as sidecars do.
constexpr int kMaxEnrollThreads = 16;
constexpr std::size_t kMaxEnrollMemory = 32 << 20;
constexpr int kMaxEnrollRequestBytes = 64 << 10;
// A sidecar calls once and comes back a minute later at the earliest, unless it tells step times.
constexpr Nanos kMaxEnrollIdle = std::chrono::seconds(10);

}  // namespace

TlsServers::TlsServers(Dependencies dependencies, std::function<void(absl::Status)> failed)
    : deps_(std::move(dependencies)),
      failed_(std::move(failed)),
      reviewer_(deps_.clock, deps_.client),
      enrollment_service_(deps_.clock, deps_.keeper, reviewer_,
                          [this](const std::string& result) { deps_.metrics.Enrolled(result); }),
      limits_(deps_.clock, deps_.client),
      service_address_(deps_.clock, deps_.client, deps_.ns, deps_.config.tls.service) {}

TlsServers::~TlsServers() {
  if (thread_.joinable()) thread_.join();
}

void TlsServers::Start() {
  ObserveFailedHandshakes([this] { deps_.metrics.PeerRefused("enrollment", "handshake"); });
  thread_ = std::thread([this] { RunThread("tls_servers", [this] { Run(); }); });
}

void TlsServers::Run() {
  if (!deps_.milestones.Await({Milestone::kCertified})) return;
  if (!deps_.milestones.reached(Milestone::kServing)) {
    const absl::Status served = RunGuarded("tls_servers", [this] { return Serve(); });
    if (!served.ok()) {
      LogError("cannot serve webhooks, enrollment or alerts", {{"error", MessageOf(served)}});
      return failed_(served);
    }
    deps_.milestones.Reach(Milestone::kServing);
  }
  Maintain();
}

absl::Status TlsServers::Serve() {
  if (!deps_.config.insecure_plaintext) RETURN_IF_ERROR(ServeEnrollment());
  if (!deps_.config.webhook.listen.empty()) RETURN_IF_ERROR(ServeWebhooks());
  if (deps_.alerts != nullptr) RETURN_IF_ERROR(ServeAlerts());
  return absl::OkStatus();
}

absl::Status TlsServers::ServeEnrollment() {
  sign_service_.emplace(deps_.clock, deps_.keeper.server(), deps_.signs,
                        [this](const std::string& reason) { deps_.metrics.SignsRefused(reason); });
  grpc::ResourceQuota quota;
  quota.SetMaxThreads(kMaxEnrollThreads);
  quota.Resize(kMaxEnrollMemory);
  ASSIGN_OR_RETURN(enrollment_,
                   GrpcServer::Start({.listen = deps_.config.tls.enroll_listen,
                                      .credentials = AskingServerCredentials(deps_.keeper.server()),
                                      .max_request_bytes = kMaxEnrollRequestBytes,
                                      .max_idle = kMaxEnrollIdle},
                                     quota, enrollment_service_, &*sign_service_));
  LogInfo("enrollment is served", {{"port", StrCat(enrollment_->port())}});
  return absl::OkStatus();
}

absl::Status TlsServers::ServeWebhooks() {
  ASSIGN_OR_RETURN(
      webhooks_,
      WebhookServer::Start({deps_.clock, deps_.config, deps_.ns, deps_.keeper, deps_.gatekeeper,
                            deps_.metrics.admission(), limits_, service_address_}));
  return absl::OkStatus();
}

absl::Status TlsServers::ServeAlerts() {
  const config::AlertReceiverConfig& config = deps_.config.alert_receiver;
  ASSIGN_OR_RETURN(receiver_,
                   trigger::AlertReceiver::Start(
                       deps_.clock,
                       {.listen = config.listen,
                        .token_files = config.token_files,
                        .files = {config.certificate, config.key, config.client_authority},
                        .client_names = config.client_names,
                        .identity = &deps_.keeper.server()},
                       *deps_.alerts, deps_.metrics.receiver()));
  return absl::OkStatus();
}

void TlsServers::Maintain() {
  do {
    if (receiver_ != nullptr) receiver_->ReloadFiles();
    if (webhooks_ == nullptr) continue;
    webhooks_->ReloadFiles();
    CountUninjectedPods();
  } while (!deps_.milestones.AwaitStop(kMaintainEvery));
}

void TlsServers::CountUninjectedPods() {
  if (!deps_.milestones.reached(Milestone::kElected)) return;
  const MonoTime now = deps_.clock.MonoNow();
  if (counted_ && now - *counted_ <= kCountPodsEvery) return;
  counted_ = now;
  const auto counts = request::CountUninjectedPods(deps_.client, deps_.config.watch_namespace);
  if (counts.ok()) deps_.metrics.admission().UninjectedPods(*counts);
}

void TlsServers::Drain() {
  if (webhooks_ != nullptr) webhooks_->Drain();
  if (receiver_ != nullptr) receiver_->Drain();
}

}  // namespace strobe
