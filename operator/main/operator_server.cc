#include "operator/main/operator_server.h"

#include <malloc.h>
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

// How long workers may take to hear that their captures are over: as long as an attempt waits for
// them.
constexpr Nanos kRetirePatience = std::chrono::seconds(8);
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
      client_(clock_, access_.transport,
              [this](const std::string& method, int status, Nanos took) {
                metrics_.Requested(method, status, took);
              }),
      lease_client_(clock_, access_.lease_transport),
      events_(clock_, client_, access_.lease.identity),
      queues_{.requests = kube::WorkQueue(clock_, &metrics_),
              .schedules = kube::WorkQueue(clock_),
              .triggers = kube::WorkQueue(clock_)},
      reflector_(clock_, client_,
                 {objects::RequestsPath(config_.watch_namespace), config_.watch_timeout,
                  [this] { milestones_.Reach(Milestone::kCacheFilled); }},
                 requests_, [this](const std::string& key) { RequestChanged(key); }),
      cluster_(client_, requests_, events_),
      history_(clock_, client_, {access_.lease.ns, config_.state_config_map}),
      policies_(clock_, client_, config_.watch_timeout),
      series_(clock_, client_, policies_.cache()),
      gatekeeper_(clock_, client_, requests_, history_,
                  {!config_.allow_without_policy, [this] { return SealKeys(); },
                   config_.webhook.configuration}),
      schedules_(RunDependencies(), config_.watch_namespace, config_.watch_timeout,
                 queues_.schedules, metrics_.schedules()),
      triggers_(RunDependencies(), config_.watch_namespace, config_.watch_timeout, queues_.triggers,
                metrics_.triggers(),
                [this] { return milestones_.reached(Milestone::kReconciling); }),
      captures_(metrics_),
      connector_(clock_,
                 [this] {
                   return config_.insecure_plaintext ? capture::PlaintextCredentials()
                                                     : certificates_->WorkerCredentials();
                 }),
      reporter_(clock_),
      notifier_(access_.receiver ? std::make_unique<request::Notifier>(
                                       clock_, *std::move(access_.receiver), config_.notify.source,
                                       [this](request::Notified result) {
                                         metrics_.Notified(std::string(request::Name(result)));
                                       })
                                 : nullptr),
      reconciler_({clock_, executor_, connector_, cluster_, captures_,
                   [this](const std::string& key) { queues_.requests.Add(key); },
                   // Without webhooks it is not known who asked for a capture.
                   has_webhooks() ? &gatekeeper_ : nullptr, config_.viewer_url, &reporter_,
                   [this](const objects::ProfileRequest& request,
                          const objects::RequestStatus& status, request::CaptureEnd end) {
                     if (notifier_) notifier_->NotifyEnd(request, status, end);
                   },
                   &judging_, &evidence_memory_}),
      // Once the lease is lost another operator may act, so that not even an orderly end is
      // allowed.
      elector_(
          clock_, lease_client_, access_.lease, [this] { milestones_.Reach(Milestone::kElected); },
          [] { _exit(1); }) {}

OperatorServer::~OperatorServer() {
  milestones_.Stop();
  client_.EndWaits();
  lease_client_.EndWaits();
  if (starter_.joinable()) starter_.join();
}

absl::Status OperatorServer::Start() {
  if (!config_.lease.enabled) milestones_.Reach(Milestone::kElected);
  if (!config_.insecure_plaintext || has_webhooks() || receives_alerts()) StartTlsServers();
  RETURN_IF_ERROR(ServeHttp());
  reflector_.Start();
  triggers_.Start();
  metrics_.Leading(/*leading=*/false, access_.lease.ns, access_.lease.name);
  starter_ = std::thread([this] { RunThread("start", [this] { BeginReconciling(); }); });
  if (config_.lease.enabled) elector_.Start();
  LogInfo("strobe-operator runs", {{"version", kVersion},
                                   {"server", access_.credentials.server},
                                   {"http_port", StrCat(http_->port())},
                                   {"identity", access_.lease.identity}});
  return absl::OkStatus();
}

access::RunStarter::Dependencies OperatorServer::RunDependencies() {
  // Without webhooks it is not known who asked for a capture, and policies do not hold.
  return {clock_,
          client_,
          requests_,
          events_,
          has_webhooks() ? &gatekeeper_ : nullptr,
          [this] { return SealKeys(); },
          has_webhooks() ? &series_ : nullptr};
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
  certificates_.emplace(clock_, config_, access_.lease.ns, client_, metrics_, milestones_);
  tls_servers_.emplace(
      TlsServers::Dependencies{clock_, config_, access_.lease.ns, client_, certificates_->keeper(),
                               gatekeeper_, metrics_, milestones_, triggers_.signs(),
                               receives_alerts() ? &triggers_.sink() : nullptr},
      [this](const absl::Status& status) { failure_.Report(status); });
  tls_servers_->Start();
  certificates_->Start();
}

absl::Status OperatorServer::ServeHttp() {
  ASSIGN_OR_RETURN(http_, http::HttpServer::Start(
                              {.listen = config_.http_listen},
                              {{"/healthz",
                                [](const http::Request&) {
                                  return http::Page{200, "ok\n"};
                                }},
                               {"/readyz", [this](const http::Request&) { return Readiness(); }},
                               {"/metrics", [this](const http::Request&) { return Metrics(); }}}));
  return absl::OkStatus();
}

http::Page OperatorServer::Readiness() const {
  if (milestones_.stopping()) return {503, "ending\n"};
  if (!milestones_.reached(Milestone::kCacheFilled)) return {503, "the cache is not filled yet\n"};
  if (tls_servers_ && !milestones_.reached(Milestone::kServing))
    return {503, "there are no certificates yet\n"};
  return {200, "ok\n"};
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
  policies_.Start();
  schedules_.Start();
  triggers_.ReconcileAll();
  if (config_.watch_namespace.empty())
    queues_.requests.ShareAmong(static_cast<std::size_t>(config_.max_concurrent_reconciles));
  reconcile_threads_ = std::make_unique<kube::ReconcileThreads>(
      clock_, config_.max_concurrent_reconciles, queues_.requests,
      [this](const std::string& key) { return reconciler_.Reconcile(key); },
      [this](const std::string& result, Nanos took) { metrics_.Reconciled(result, took); });
}

void OperatorServer::ReleaseMemory() {
  const std::size_t active = reconciler_.active();
  if (active < active_before_) malloc_trim(0);
  active_before_ = active;
}

absl::Status OperatorServer::Stop() {
  LogInfo("ending", {{"active_captures", StrCat(reconciler_.active())}});
  milestones_.Stop();
  const bool is_removed = IsNamespaceEnding(client_, access_.lease.ns);
  if (is_removed) RetireCaptures();
  client_.EndWaits();
  lease_client_.EndWaits();
  if ((has_webhooks() || receives_alerts()) && milestones_.reached(Milestone::kServing) &&
      failure_.first().ok()) {
    tls_servers_->Drain();
    std::this_thread::sleep_for(config_.webhook.drain_time);
  }
  starter_.join();
  reconcile_threads_.reset();
  triggers_.Stop();
  policies_.Stop();
  schedules_.Stop();
  // Again, because a reconciliation that was under way may have added a finalizer.
  if (is_removed) LetRequestsGo(client_, config_.watch_namespace);
  // Last, so that a successor begins only when nothing of ours acts any more.
  if (config_.lease.enabled) elector_.Release();
  return failure_.first();
}

void OperatorServer::RetireCaptures() {
  reconciler_.Retire("Strobe is being removed");
  captures_.AwaitNone(kRetirePatience);
  queues_.requests.ShutDown();
  LetRequestsGo(client_, config_.watch_namespace);
}

}  // namespace strobe
