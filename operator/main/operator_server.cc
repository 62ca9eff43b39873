#include "operator/main/operator_server.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/guard.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/base/version.h"
#include "operator/kube/object_cache.h"
#include "operator/main/commands.h"
#include "operator/objects/request.h"

namespace strobe {
namespace {

constexpr Nanos kNamespaceTimeout = std::chrono::seconds(3);

// Names this process in the lease. The random part tells two containers of one pod apart.
std::string NewIdentity() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  std::array<char, 8> random{};
  std::ifstream("/dev/urandom", std::ios::binary).read(random.data(), random.size());
  std::string text = StrCat(host.data(), "_");
  for (const char byte : random) text += absl::StrFormat("%02x", static_cast<unsigned char>(byte));
  return text;
}

kube::LeaseOptions LeaseOptionsOf(const config::LeaseConfig& lease,
                                  const kube::Credentials& credentials) {
  return {.ns = lease.ns.empty() ? credentials.ns : lease.ns,
          .name = lease.name,
          .identity = NewIdentity(),
          .duration = lease.duration,
          .renew_deadline = lease.renew_deadline,
          .retry_period = lease.retry_period};
}

bool HasWebhooks(const config::OperatorConfig& config) { return !config.webhook.listen.empty(); }
bool ReceivesAlerts(const config::OperatorConfig& config) {
  return !config.alert_receiver.listen.empty();
}

std::map<std::string, metrics::OperatorMetrics::Pending> PendingOf(
    const kube::ObjectCache& requests, WallTime now) {
  std::map<std::string, metrics::OperatorMetrics::Pending> by_namespace;
  for (const std::string& key : requests.Keys()) {
    const kube::Object request = requests.Get(key);
    const std::optional<WallTime> since =
        request == nullptr ? std::nullopt : objects::PendingSince(*request);
    if (!since) continue;
    metrics::OperatorMetrics::Pending& pending = by_namespace[kube::NamespaceOf(key)];
    ++pending.count;
    pending.oldest = std::max(pending.oldest, now - *since);
  }
  return by_namespace;
}

// Whether the operator's namespace is being deleted, and the operator with it.
bool IsNamespaceEnding(kube::Client& client, const std::string& ns) {
  const absl::StatusOr<kube::Json> found =
      client.Get(StrCat("/api/v1/namespaces/", ns), kNamespaceTimeout);
  if (!found.ok() && !absl::IsNotFound(found.status())) {
    LogError(
        "cannot find out whether this namespace is being deleted; if it is, run strobe-operator "
        "release-requests to remove the finalizer from requests that wait for an operator",
        {{"error", MessageOf(found.status())}});
  }
  return found.ok() && found->value("metadata", kube::Json::object()).contains("deletionTimestamp");
}

// Called when Strobe is removed, because no operator will come after this one.
void LetRequestsGo(kube::Client& client, const std::string& ns) {
  const absl::StatusOr<int> released = ReleaseRequests(client, ns);
  if (released.ok()) {
    LogInfo(
        "removed the finalizer from all requests, because the operator's namespace is being "
        "deleted",
        {{"requests", StrCat(*released)}});
  } else {
    LogError(
        "deleted requests will still wait for an operator; run strobe-operator release-requests to "
        "remove their finalizer",
        {{"error", MessageOf(released.status())}});
  }
}

// `serves`: the operator has servers that need its certificates.
http::Page Readiness(const Milestones& milestones, bool serves) {
  if (milestones.stopping()) return {503, "ending\n"};
  if (!milestones.reached(Milestone::kCacheFilled)) return {503, "the cache is not filled yet\n"};
  if (serves && !milestones.reached(Milestone::kServing))
    return {503, "there are no certificates yet\n"};
  return {200, "ok\n"};
}

}  // namespace

absl::StatusOr<std::unique_ptr<OperatorServer>> OperatorServer::Create(
    const Clock& clock, config::OperatorConfig config, const std::string& kubeconfig,
    std::function<void()> failed) {
  Access access;
  ASSIGN_OR_RETURN(access.credentials, kube::FindCredentials(kubeconfig));
  access.lease = LeaseOptionsOf(config.lease, access.credentials);
  RETURN_IF_ERROR(kube::CheckLeaseOptions(access.lease));
  kube::InitCpprest();
  ASSIGN_OR_RETURN(access.transport, kube::MakeCpprestTransport(clock, access.credentials));
  ASSIGN_OR_RETURN(access.lease_transport, kube::MakeCpprestTransport(clock, access.credentials));
  if (const config::NotifyConfig& notify = config.notify; !notify.url.empty()) {
    ASSIGN_OR_RETURN(access.receiver, request::MakeReceiver(clock, notify.url, notify.directory));
    access.receiver->grafana = notify.format == "Grafana";
  }
  return std::unique_ptr<OperatorServer>(
      new OperatorServer(clock, std::move(config), std::move(access), std::move(failed)));
}

OperatorServer::OperatorServer(const Clock& clock, config::OperatorConfig config, Access access,
                               std::function<void()> failed)
    : clock_(clock),
      config_(std::move(config)),
      access_(std::move(access)),
      failure_(std::move(failed)),
      clients_{.general = kube::Client(clock_, access_.transport,
                                       [this](const std::string& method, int status, Nanos took) {
                                         metrics_.Requested(method, status, took);
                                       }),
               .lease = kube::Client(clock_, access_.lease_transport),
               .events = kube::EventRecorder(clock_, clients_.general, access_.lease.identity)},
      queues_{.requests = kube::WorkQueue(clock_, &metrics_),
              .schedules = kube::WorkQueue(clock_),
              .triggers = kube::WorkQueue(clock_)},
      cluster_(clients_.general, requests_, clients_.events),
      history_(clock_, clients_.general, {access_.lease.ns, config_.state_config_map}),
      policies_(clock_, clients_.general, config_.watch_timeout),
      series_(clock_, clients_.general, policies_.cache()),
      gatekeeper_(clock_, clients_.general, requests_, history_,
                  {!config_.allow_without_policy, [this] { return SealKeys(); },
                   config_.webhook.configuration}),
      schedules_(RunDependencies(), config_.watch_namespace, config_.watch_timeout,
                 queues_.schedules, metrics_.schedules()),
      triggers_(RunDependencies(), config_.watch_namespace, config_.watch_timeout, queues_.triggers,
                metrics_.triggers(),
                [this] { return milestones_.reached(Milestone::kReconciling); }),
      engine_({.clock = clock_,
               .config = config_,
               .metrics = metrics_,
               .cluster = cluster_,
               .queue = queues_.requests,
               // Without webhooks it is not known who asked for a capture.
               .gatekeeper = HasWebhooks(config_) ? &gatekeeper_ : nullptr,
               .credentials =
                   [this] {
                     return config_.insecure_plaintext ? capture::PlaintextCredentials()
                                                       : certificates_->WorkerCredentials();
                   }},
              std::move(access_.receiver)),
      reflector_(clock_, clients_.general,
                 {objects::RequestsPath(config_.watch_namespace), config_.watch_timeout,
                  [this] { milestones_.Reach(Milestone::kCacheFilled); }},
                 requests_, [this](const std::string& key) { RequestChanged(key); }),
      // Once the lease is lost another operator may act, so that not even an orderly end is
      // allowed.
      elector_(
          clock_, clients_.lease, access_.lease, [this] { milestones_.Reach(Milestone::kElected); },
          [] { _exit(1); }),
      parts_(MakeParts()) {}

OperatorServer::~OperatorServer() {
  milestones_.Stop();
  clients_.EndWaits();
  if (starter_.joinable()) starter_.join();
}

std::vector<Part> OperatorServer::MakeParts() {
  const auto ok = [](auto&& start) {
    return [start] {
      start();
      return absl::OkStatus();
    };
  };
  return {
      {.name = "lease",
       .start = ok([this] {
         if (!config_.lease.enabled) milestones_.Reach(Milestone::kElected);
       }),
       // Last, so that a successor begins only when nothing of ours acts any more.
       .stop =
           [this] {
             if (config_.lease.enabled) elector_.Release();
           }},
      // No operator will come after one whose namespace is being deleted.
      {.name = "removal",
       .drain =
           [this] {
             if (!IsNamespaceEnding(clients_.general, access_.lease.ns)) return;
             engine_.Retire();
             LetRequestsGo(clients_.general, config_.watch_namespace);
           },
       // Again, because a reconciliation that was under way may have added a finalizer.
       .stop =
           [this] {
             if (engine_.is_retired()) LetRequestsGo(clients_.general, config_.watch_namespace);
           }},
      {.name = "clients", .drain = [this] { clients_.EndWaits(); }},
      {.name = "tls_servers",
       .start = ok([this] { StartTlsServers(); }),
       .drain =
           [this] {
             if ((!HasWebhooks(config_) && !ReceivesAlerts(config_)) ||
                 !milestones_.reached(Milestone::kServing) || !failure_.first().ok())
               return;
             tls_servers_->Drain();
             std::this_thread::sleep_for(config_.webhook.drain_time);
           }},
      {.name = "http", .start = [this] { return ServeHttp(); }},
      {.name = "cache", .start = ok([this] { reflector_.Start(); })},
      {.name = "schedules",
       .lead = [this] { schedules_.Start(); },
       .stop = [this] { schedules_.Stop(); }},
      {.name = "policies",
       .lead = [this] { policies_.Start(); },
       .stop = [this] { policies_.Stop(); }},
      {.name = "triggers",
       .start = ok([this] { triggers_.Start(); }),
       .lead = [this] { triggers_.ReconcileAll(); },
       .stop = [this] { triggers_.Stop(); }},
      {.name = "engine", .lead = [this] { engine_.Start(); }, .stop = [this] { engine_.Stop(); }},
      {.name = "leading",
       .start = ok([this] {
         metrics_.Leading(/*leading=*/false, access_.lease.ns, access_.lease.name);
         starter_ = std::thread([this] { RunThread("start", [this] { BeginReconciling(); }); });
       }),
       .stop = [this] { starter_.join(); }},
      {.name = "election", .start = ok([this] {
                             if (config_.lease.enabled) elector_.Start();
                           })},
  };
}

absl::Status OperatorServer::Start() {
  RETURN_IF_ERROR(parts_.Start());
  LogInfo("strobe-operator runs", {{"version", kVersion},
                                   {"server", access_.credentials.server},
                                   {"http_port", StrCat(http_->port())},
                                   {"identity", access_.lease.identity}});
  return absl::OkStatus();
}

absl::Status OperatorServer::Stop() {
  LogInfo("ending", {{"active_captures", StrCat(engine_.active())}});
  milestones_.Stop();
  parts_.Stop();
  return failure_.first();
}

access::RunStarter::Dependencies OperatorServer::RunDependencies() {
  // Without webhooks it is not known who asked for a capture, and policies do not hold.
  return {clock_,
          clients_.general,
          requests_,
          clients_.events,
          HasWebhooks(config_) ? &gatekeeper_ : nullptr,
          [this] { return SealKeys(); },
          HasWebhooks(config_) ? &series_ : nullptr};
}

void OperatorServer::RequestChanged(const std::string& key) {
  if (!milestones_.reached(Milestone::kReconciling)) return;
  queues_.requests.Add(key);
  if (const std::string schedule = schedule::ScheduleKeyOfRun(key); !schedule.empty())
    queues_.schedules.Add(schedule);
  triggers_.RequestChanged(key);
}

std::vector<std::string> OperatorServer::SealKeys() const {
  return certificates_ ? certificates_->keeper().SealKeys() : std::vector<std::string>();
}

void OperatorServer::StartTlsServers() {
  if (config_.insecure_plaintext && !HasWebhooks(config_) && !ReceivesAlerts(config_)) return;
  certificates_.emplace(clock_, config_, access_.lease.ns, clients_.general, metrics_, milestones_);
  tls_servers_.emplace(
      TlsServers::Dependencies{.clock = clock_,
                               .config = config_,
                               .ns = access_.lease.ns,
                               .client = clients_.general,
                               .keeper = certificates_->keeper(),
                               .gatekeeper = gatekeeper_,
                               .metrics = metrics_,
                               .milestones = milestones_,
                               .signs = triggers_.signs(),
                               .alerts = ReceivesAlerts(config_) ? &triggers_.sink() : nullptr},
      [this](const absl::Status& status) { failure_.Report(status); });
  tls_servers_->Start();
  certificates_->Start();
}

absl::Status OperatorServer::ServeHttp() {
  ASSIGN_OR_RETURN(http_, http::Server::Start(
                              {.listen = config_.http_listen},
                              {{"/healthz",
                                [](const http::Request&) {
                                  return http::Page{200, "ok\n"};
                                }},
                               {"/readyz",
                                [this](const http::Request&) {
                                  return Readiness(milestones_, tls_servers_.has_value());
                                }},
                               {"/metrics", [this](const http::Request&) { return Metrics(); }}}));
  return absl::OkStatus();
}

http::Page OperatorServer::Metrics() {
  metrics_.QueueLoad(queues_.requests.load(), config_.max_concurrent_reconciles);
  metrics_.PendingRequests(PendingOf(requests_, clock_.WallNow()));
  if (const auto newest = certificates_ ? certificates_->keeper().NewestAuthority() : std::nullopt)
    metrics_.NewestAuthority(newest->from, newest->until);
  return http::MetricsPage(metrics_.Render());
}

void OperatorServer::BeginReconciling() {
  // With a cache that is not filled, every capture would look as if its request had been deleted.
  const bool begins =
      tls_servers_
          ? milestones_.Await({Milestone::kElected, Milestone::kCacheFilled, Milestone::kServing})
          : milestones_.Await({Milestone::kElected, Milestone::kCacheFilled});
  if (!begins) return;
  // Before the cache is read, so that a request that changes meanwhile is not missed.
  milestones_.Reach(Milestone::kReconciling);
  history_.Reload();
  metrics_.Leading(/*leading=*/true, access_.lease.ns, access_.lease.name);
  for (const std::string& key : requests_.Keys()) queues_.requests.Add(key);
  parts_.Lead();
}

}  // namespace strobe
