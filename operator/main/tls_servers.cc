#include "operator/main/tls_servers.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>

#include <cstdint>
#include <cstdlib>
#include <utility>

#include "common/base/guard.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/grpc_tls/grpc_log.h"
#include "common/text/ip_text.h"
#include "operator/admission/review.h"
#include "operator/request/pod_list.h"

namespace strobe {
namespace {

constexpr std::size_t kMaxConnections = 1024;
constexpr int kThreads = 16;
// The other threads never wait for the API server, so that pods are injected while it is slow.
constexpr int kMaxJudgedAtOnce = kThreads / 2;

int PortOf(const std::string& listen) { return std::atoi(listen.c_str() + listen.rfind(':') + 1); }

admission::InjectedFile FileOf(const config::InjectedFileConfig& file) {
  return {file.secret, file.config_map, file.key};
}

nlohmann::json EnvVarOf(const config::InjectedVariableConfig& variable) {
  nlohmann::json entry = {{"name", variable.name}};
  const config::InjectedFileConfig& from = variable.from;
  if (!from.secret.empty() || !from.config_map.empty()) {
    const bool secret = !from.secret.empty();
    entry["valueFrom"][secret ? "secretKeyRef" : "configMapKeyRef"] = {
        {"name", secret ? from.secret : from.config_map}, {"key", from.key}, {"optional", true}};
  } else if (!variable.field.empty()) {
    entry["valueFrom"]["fieldRef"] = {{"fieldPath", variable.field}};
  } else {
    entry["value"] = variable.value;
  }
  return entry;
}

admission::InjectionSettings SettingsOf(const config::OperatorConfig& config,
                                        const std::string& ns) {
  admission::InjectionSettings settings;
  settings.image = config.injection.image;
  settings.pull_policy = config.injection.pull_policy;
  settings.viewer_image = config.injection.viewer_image;
  settings.cpu = config.injection.cpu;
  settings.memory = config.injection.memory;
  settings.memory_limit = config.injection.memory_limit;
  settings.spool_size = config.injection.spool_size;
  settings.agent_memory = config.injection.agent_memory;
  settings.user = config.injection.user == 0 ? std::nullopt
                                             : std::optional<std::int64_t>(config.injection.user);
  settings.framework_port = config.injection.framework_port;
  settings.metrics_port = config.injection.metrics_port;
  settings.ephemeral_storage = config.injection.ephemeral_storage;
  settings.pull_secrets = config.injection.image_pull_secrets;
  settings.disabled = config.injection.disable;
  for (const config::InjectedVariableConfig& variable : config.injection.env)
    settings.environment.push_back(EnvVarOf(variable));
  settings.storage_secret = config.injection.storage_secret;
  settings.storage_config = FileOf(config.injection.storage_config);
  settings.storage_ca = FileOf(config.injection.storage_ca);
  settings.cpu_limit = config.injection.cpu_limit;
  settings.always_limit_cpu = config.injection.always_limit_cpu;
  settings.mode = config.injection.mode == "container" ? admission::InjectionMode::kContainer
                                                       : admission::InjectionMode::kNative;
  if (const auto range = config::ParsePortRange(config.injection.host_network_ports); range.ok()) {
    settings.first_host_port = range->first;
    settings.last_host_port = range->last;
  }
  settings.log_level = config.log_level;
  if (!config.insecure_plaintext) {
    settings.enrollment =
        StrCat(config.tls.service, ".", ns, ".svc:", PortOf(config.tls.enroll_listen));
  }
  return settings;
}

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

absl::StatusOr<std::unique_ptr<WebhookServer>> WebhookServer::Start(Dependencies dependencies) {
  std::unique_ptr<WebhookServer> server(new WebhookServer(std::move(dependencies)));
  RETURN_IF_ERROR(server->Listen());
  return server;
}

absl::Status WebhookServer::Listen() {
  const config::WebhookConfig& config = deps_.config.webhook;
  http::ServerOptions options{.listen = config.listen,
                              .max_connections = kMaxConnections,
                              .max_body_bytes = admission::kMaxReviewBytes,
                              .threads = kThreads,
                              .identity = &deps_.keeper.server()};
  ASSIGN_OR_RETURN(files_,
                   IdentityFiles::Read({config.certificate, config.key, config.client_authority}));
  if (files_->identity() != nullptr) options.identity = files_->identity();
  if (!config.client_authority.empty()) {
    options.client_authorities = [this] { return files_->client_authorities(); };
    options.client_names = config.client_names;
  }
  const enroll::AuthorityKeeper& keeper = deps_.keeper;
  ASSIGN_OR_RETURN(
      server_,
      http::Server::Start(options, admission::WebhookPages(
                                       deps_.clock,
                                       {SettingsOf(deps_.config, deps_.ns),
                                        [&keeper] { return keeper.server().Get()->roots; },
                                        [&keeper] { return keeper.SealKeys(); }, kMaxJudgedAtOnce,
                                        [this] { return EnrollmentAddress(); }},
                                       deps_.gatekeeper, deps_.observer, &deps_.limits)));
  LogInfo("webhooks are served", {{"port", StrCat(server_->port())}});
  return absl::OkStatus();
}

std::string WebhookServer::EnrollmentAddress() const {
  const config::OperatorConfig& config = deps_.config;
  if (config.insecure_plaintext) return "";
  const std::string ip = deps_.service_address.Get();
  return ip.empty() ? "" : StrCat(HostBeforePort(ip), ":", PortOf(config.tls.enroll_listen));
}

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
