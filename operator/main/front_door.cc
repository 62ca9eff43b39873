#include "operator/main/front_door.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>

#include "common/base/guard.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/base/text_file.h"
#include "operator/admission/review.h"
#include "operator/kube/pod_list.h"

namespace strobe {
namespace {

constexpr Nanos kTend = std::chrono::seconds(5);
// A list of all labelled pods: thousands of them are not asked for often.
constexpr Nanos kCountPods = std::chrono::minutes(5);
constexpr std::size_t kMostWebhookConnections = 1024;
constexpr int kWebhookThreads = 8;  // Some wait for the API server's answers.

int PortOf(const std::string& listen) { return std::atoi(listen.c_str() + listen.rfind(':') + 1); }

AuthorityKeeper::Options KeeperOptions(const OperatorConfig& config, const std::string& space) {
  AuthorityKeeper::Options options;
  options.rules = RulesOf(config.tls);
  options.server_names = {StrCat(config.tls.service, ".", space, ".svc")};
  for (const std::string& name : config.tls.extra_names) options.server_names.push_back(name);
  // Often enough that nothing of a short-lived kind is missed.
  options.poll = std::min<Nanos>(options.poll, config.tls.certificate_lifetime / 10);
  return options;
}

InjectionSettings SettingsOf(const OperatorConfig& config, const std::string& space) {
  InjectionSettings settings;
  settings.image = config.injection.image;
  settings.pull_policy = config.injection.pull_policy;
  settings.cpu = config.injection.cpu;
  settings.memory = config.injection.memory;
  settings.memory_limit = config.injection.memory_limit;
  settings.spool_size = config.injection.spool_size;
  settings.agent_memory = config.injection.agent_memory;
  settings.user = config.injection.user == 0 ? std::nullopt
                                             : std::optional<std::int64_t>(config.injection.user);
  settings.framework_port = config.injection.framework_port;
  settings.log_level = config.log_level;
  if (!config.insecure_plaintext) {
    settings.enrollment =
        StrCat(config.tls.service, ".", space, ".svc:", PortOf(config.tls.enroll_listen));
  }
  return settings;
}

}  // namespace

AuthorityRules RulesOf(const TlsConfig& tls) {
  return {tls.authority_lifetime, tls.settle, tls.certificate_lifetime};
}

FrontDoor::FrontDoor(Dependencies dependencies, std::function<void()> opened,
                     std::function<void(absl::Status)> failed)
    : deps_(std::move(dependencies)),
      opened_(std::move(opened)),
      failed_(std::move(failed)),
      store_(deps_.client,
             {deps_.config.tls.space.empty() ? deps_.space : deps_.config.tls.space,
              deps_.config.tls.secret,
              deps_.config.webhook.certificate.empty() && !deps_.config.webhook.listen.empty()
                  ? deps_.config.webhook.configuration
                  : ""}),
      reviewer_(deps_.client),
      keeper_(deps_.clock, store_, KeeperOptions(deps_.config, deps_.space), deps_.leading,
              [this] { certified_or_stopped_.Notify(); }),
      enrollment_(keeper_, reviewer_,
                  [this](const std::string& result) { deps_.metrics.Enrolled(result); }) {
  keeper_.Start();
  thread_ = std::thread([this] { RunThread("doors", [this] { Run(); }); });
}

FrontDoor::~FrontDoor() {
  stop_.Notify();
  certified_or_stopped_.Notify();
  thread_.join();
  if (enrollment_server_ != nullptr)
    enrollment_server_->Shutdown(DeadlineIn(std::chrono::seconds(1)));
}

void FrontDoor::Run() {
  certified_or_stopped_.Wait();
  if (stop_.is_set()) return;
  if (!open_) {
    if (const absl::Status status = RunGuarded("doors", [this] { return Open(); }); !status.ok()) {
      LogError("cannot serve webhooks and enrollment", {{"error", Words(status)}});
      return failed_(status);
    }
    open_ = true;
    opened_();
  }
  Tend();
}

absl::Status FrontDoor::Open() {
  worker_credentials_.emplace(deps_.clock, keeper_.client(), [this](PeerVerdict verdict) {
    deps_.metrics.PeerRefused("worker", std::string(Name(verdict)));
  });
  if (!deps_.config.insecure_plaintext) {
    RETURN_IF_ERROR(OpenEnrollment());
  }
  return deps_.config.webhook.listen.empty() ? absl::OkStatus() : OpenWebhooks();
}

absl::Status FrontDoor::OpenEnrollment() {
  grpc::ResourceQuota quota;
  quota.SetMaxThreads(16);
  quota.Resize(32 << 20);
  int port = 0;
  grpc::ServerBuilder builder;
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(64 << 10);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10000);
  // Each sidecar calls once and goes.
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, 10000);
  builder.AddListeningPort(deps_.config.tls.enroll_listen,
                           OneSidedServerCredentials(keeper_.server()), &port);
  builder.RegisterService(&enrollment_);
  enrollment_server_ = builder.BuildAndStart();
  if (enrollment_server_ == nullptr || port == 0)
    return absl::UnavailableError(StrCat("cannot listen on ", deps_.config.tls.enroll_listen));
  LogInfo("enrollment is served", {{"port", StrCat(port)}});
  return absl::OkStatus();
}

absl::StatusOr<Identity> FrontDoor::ForeignIdentity() const {
  Identity identity;
  ASSIGN_OR_RETURN(identity.own.certificate, ReadTextFile(deps_.config.webhook.certificate));
  ASSIGN_OR_RETURN(identity.own.key, ReadTextFile(deps_.config.webhook.key));
  RETURN_IF_ERROR(ValidityOf(identity.own.certificate).status());
  return identity;
}

absl::Status FrontDoor::OpenWebhooks() {
  HttpOptions options{.listen = deps_.config.webhook.listen,
                      .most_connections = kMostWebhookConnections,
                      .most_body_bytes = kMaxReviewBytes,
                      .threads = kWebhookThreads,
                      .identity = &keeper_.server()};
  if (!deps_.config.webhook.certificate.empty()) {
    ASSIGN_OR_RETURN(Identity identity, ForeignIdentity());
    foreign_.emplace(std::move(identity));
    options.identity = &*foreign_;
  }
  if (!deps_.config.webhook.client_authority.empty()) {
    RETURN_IF_ERROR(ReadClientAuthorities());
    options.client_authorities = [this] {
      MutexLock lock(&mutex_);
      return client_authorities_;
    };
    options.client_names = deps_.config.webhook.client_names;
  }
  ASSIGN_OR_RETURN(
      webhooks_,
      HttpServer::Start(options,
                        WebhookPages(deps_.clock,
                                     {SettingsOf(deps_.config, deps_.space),
                                      [this] { return keeper_.server().Get()->roots; },
                                      [this] { return keeper_.SealKeys(); }, kWebhookThreads / 2},
                                     deps_.gatekeeper, deps_.metrics)));
  LogInfo("webhooks are served", {{"port", StrCat(webhooks_->port())}});
  return absl::OkStatus();
}

absl::Status FrontDoor::ReadClientAuthorities() {
  ASSIGN_OR_RETURN(std::string authorities, ReadTextFile(deps_.config.webhook.client_authority));
  RETURN_IF_ERROR(ValidityOf(authorities).status());
  MutexLock lock(&mutex_);
  client_authorities_ = std::move(authorities);
  return absl::OkStatus();
}

void FrontDoor::Tend() {
  std::optional<MonoTime> counted;
  do {
    if (foreign_) {
      const absl::StatusOr<Identity> now = ForeignIdentity();
      const std::shared_ptr<const Identity> before = foreign_->Get();
      if (now.ok() &&
          (now->own.certificate != before->own.certificate || now->own.key != before->own.key))
        foreign_->Replace(*now);
    }
    // The last ones that could be read stay.
    if (!deps_.config.webhook.client_authority.empty()) ReadClientAuthorities().IgnoreError();
    if (webhooks_ != nullptr && deps_.leading() &&
        (!counted || deps_.clock.MonoNow() - *counted > kCountPods)) {
      counted = deps_.clock.MonoNow();
      const auto counts = kube::CountUninjectedPods(deps_.client, deps_.config.watch_namespace);
      if (counts.ok()) deps_.metrics.UninjectedPods(*counts);
    }
  } while (!stop_.WaitFor(kTend));
}

std::shared_ptr<grpc::ChannelCredentials> FrontDoor::WorkerCredentials() {
  return worker_credentials_->Current();
}

void FrontDoor::Drain() {
  if (webhooks_ != nullptr) webhooks_->Drain();
}

}  // namespace strobe
