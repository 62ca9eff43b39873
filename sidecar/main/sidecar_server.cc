#include "sidecar/main/sidecar_server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <chrono>
#include <utility>

#include "common/base/duration.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/base/version.h"
#include "common/grpc_tls/credentials.h"
#include "common/grpc_tls/grpc_log.h"
#include "common/text/safe_text.h"

namespace strobe {
namespace {

constexpr std::size_t kMaxNameBytes = 240;  // Leaves room for suffixes in a file name.
constexpr int kMaxGrpcThreads = 48;
// Room for a manifest of kMaxManifestBytes in its request.
constexpr int kMaxWorkerRequestBytes = 13 << 20;
// How long the end of the process waits for a capture that is not recorded yet, even if --grace is
// longer. --grace may be an hour, so that a large upload can finish. The end of the pod must not
// wait that long for a start or a recording, because the trainer has usually ended already.
constexpr Nanos kRecordingPatience = std::chrono::seconds(25);
// How long an interrupted capture may take to write its last report.
constexpr Nanos kSuspendPatience = std::chrono::seconds(2);
constexpr Nanos kStopPatience = std::chrono::seconds(1);

absl::Status Annotate(std::string_view what, const absl::Status& status) {
  return absl::Status(status.code(), StrCat(what, ": ", MessageOf(status)));
}

Nanos ParsedDuration(const std::string& flag) { return ParseDuration(flag).value_or(Nanos{0}); }

std::optional<source::KinetoDaemonOptions> KinetoOptionsOf(const SidecarFlags& flags) {
  if (flags.kineto_daemon.empty()) return std::nullopt;
  return source::KinetoDaemonOptions{.directory = flags.kineto_daemon,
                                     .socket_files = flags.kineto_socket_files,
                                     .max_duration = ParsedDuration(flags.kineto_max_duration)};
}

// Null without a collector.
service::EvidenceReader EvidenceReaderOf(stall::EvidenceCollector* evidence) {
  if (evidence == nullptr) return nullptr;
  return
      [evidence](const v1::ReadEvidenceRequest& request, const std::function<bool()>& is_wanted) {
        return evidence->Read(request, is_wanted);
      };
}

storage::OnRetry CountRetries(service::SidecarMetrics& metrics) {
  return [&metrics](const absl::Status& failure, Nanos wait) {
    metrics.UploadRetried();
    LogWarning("a request to a store failed and is retried",
               {{"error", MessageOf(failure)}, {"in", FormatDuration(wait)}});
  };
}

}  // namespace

absl::StatusOr<std::unique_ptr<SidecarServer>> SidecarServer::Create(SidecarFlags flags,
                                                                     storage::StorageConfig storage,
                                                                     std::function<void()> failed) {
  std::unique_ptr<spool::Spool> spool;
  if (!flags.spool_dir.empty()) {
    absl::StatusOr<std::unique_ptr<spool::Spool>> opened =
        spool::Spool::Open(flags.spool_dir, flags.spool_size);
    if (!opened.ok()) return Annotate("the spool cannot be used", opened.status());
    spool = *std::move(opened);
  }
  absl::StatusOr<std::unique_ptr<source::AgentDirectory>> agent_directory =
      OpenAgentDirectory(flags);
  if (!agent_directory.ok())
    return Annotate("the agent's directory cannot be served", agent_directory.status());
  return std::unique_ptr<SidecarServer>(new SidecarServer(std::move(flags), std::move(storage),
                                                          std::move(failed), std::move(spool),
                                                          *std::move(agent_directory)));
}

SidecarServer::SidecarServer(SidecarFlags flags, storage::StorageConfig storage,
                             std::function<void()> failed, std::unique_ptr<spool::Spool> spool,
                             std::unique_ptr<source::AgentDirectory> agent_directory)
    : flags_(std::move(flags)),
      name_(ToSafeName(flags_.worker_name, kMaxNameBytes)),
      failed_(std::move(failed)),
      spool_(std::move(spool)),
      stores_(
          std::move(storage),
          flags_.trust_logdir_options ? storage::UrlOptions::kAll : storage::UrlOptions::kHarmless,
          CountRetries(metrics_)),
      framework_(
          clock_,
          {.addresses = flags_.framework,
           .shared_dir = flags_.shared_dir,
           .risks = flags_.risks,
           .announced_in = flags_.agent_only_parent ? "" : flags_.agent_dir,
           .flight_recorder = flags_.flight_recorder_devices && !flags_.tpu_metrics.empty(),
           .flight_state = flags_.state_dir.empty() ? "" : flags_.state_dir + "/flight-recorder"}),
      agent_(agent_directory == nullptr
                 ? nullptr
                 : std::make_unique<AgentParts>(
                       clock_, framework_, std::move(agent_directory),
                       AgentParts::Flight{ParsedDuration(flags_.flight_recorder),
                                          flags_.flight_recorder_devices,
                                          source::PortsOf(flags_.framework)},
                       KinetoOptionsOf(flags_), flags_.allow_stalls)),
      collective_counts_(agent_ == nullptr ? "" : agent_->directory().path()),
      source_(agent_ == nullptr ? framework_ : agent_->source()),
      delivery_(clock_, stores_, spool_.get(),
                {ParsedDuration(flags_.spool_keep), flags_.upload_rate},
                {.late = [this] { metrics_.KeptTraceArrived(); },
                 .dropped = [this] { metrics_.KeptTraceDropped(); }}),
      runner_(
          clock_, source_, delivery_,
          [this](const v1::Report& report) { metrics_.CaptureEnded(report); },
          agent_ == nullptr ? nullptr : &agent_->monitor()),
      evidence_(agent_ == nullptr || !agent_->directory().is_owner()
                    ? nullptr
                    : std::make_unique<stall::EvidenceCollector>(
                          clock_, agent_->directory().path(), stall::RasOptions{},
                          [this] { return source_.Steps(); })),
      worker_(name_, clock_, runner_, source_, stores_,
              spool_ == nullptr
                  ? std::function<std::uint64_t()>()
                  : std::function<std::uint64_t()>([this] { return spool_->free_bytes(); }),
              flags_.agent_dir.empty() ? std::vector<std::string>() : flags_.containers,
              EvidenceReaderOf(evidence_.get())),
      guarded_worker_(worker_),
      profiler_(clock_, runner_, stores_) {
  quota_.SetMaxThreads(kMaxGrpcThreads);
}

SidecarServer::~SidecarServer() {
  // The enroller's thread uses members that are destroyed before the enroller.
  if (enroller_) enroller_->Stop();
}

absl::Status SidecarServer::Start() {
  if (spool_ != nullptr) runner_.Restore(spool_->recovered());
  grpc::EnableDefaultHealthCheckService(true);
  if (flags_.insecure_plaintext) {
    RETURN_IF_ERROR(ServeWorkers(grpc::InsecureServerCredentials()));
  } else {
    StartEnrolling();
  }
  RETURN_IF_ERROR(ServeStockClients());
  RETURN_IF_ERROR(ServeMetrics());
  LogInfo("strobe-sidecar serves",
          {{"version", kVersion},
           {"worker", name_},
           {"port", StrCat(worker_port_.load())},
           {"compat_port", StrCat(stock_server_ == nullptr ? 0 : stock_server_->port())},
           {"http_port", StrCat(http_ == nullptr ? 0 : http_->port())}});
  return absl::OkStatus();
}

absl::Status SidecarServer::ServeWorkers(std::shared_ptr<grpc::ServerCredentials> credentials) {
  absl::Status failed;
  for (const std::string& address : ListenAddresses(flags_.listen)) {
    absl::StatusOr<std::unique_ptr<GrpcServer>> server =
        GrpcServer::Start({.listen = address,
                           .credentials = credentials,
                           .max_request_bytes = kMaxWorkerRequestBytes},
                          quota_, guarded_worker_, OnePortForAll() ? &profiler_ : nullptr);
    if (server.ok()) {
      worker_server_ = *std::move(server);
      worker_port_ = worker_server_->port();
      return absl::OkStatus();
    }
    failed.Update(server.status());
  }
  return failed;
}

void SidecarServer::StartEnrolling() {
  ObserveFailedHandshakes([this] { metrics_.PeerRefused("handshake"); });
  enroller_.emplace(
      clock_,
      enroll::Enroller::Options{
          {flags_.enroll, flags_.enroll_at}, flags_.token_file, flags_.roots, flags_.state_dir},
      [this](const enroll::Enroller::Enrolled& enrolled) { OnEnrolled(enrolled); });
  enroller_->Start();
}

void SidecarServer::OnEnrolled(const enroll::Enroller::Enrolled& enrolled) {
  const auto refused = [this](PeerVerdict verdict) {
    metrics_.PeerRefused(std::string(Name(verdict)));
  };
  const absl::Status served =
      ServeWorkers(MutualServerCredentials(clock_, enrolled.identity, kOperatorName, refused));
  if (!served.ok()) {
    LogError("cannot serve the operator", {{"error", MessageOf(served)}});
    has_failed_ = true;
    failed_();
    return;
  }
  LogInfo("strobe-sidecar serves its operator", {{"port", StrCat(worker_port_.load())}});
  WatchSigns(enrolled);
}

void SidecarServer::WatchSigns(const enroll::Enroller::Enrolled& enrolled) {
  // An older operator does not say which pod this is, and wants no signs. A guest is one of several
  // sidecars of its pod.
  if (enrolled.pod.uid.empty() || flags_.agent_only_parent) return;
  signs_ = std::make_unique<SignWatch>(
      clock_, source_,
      agent_ == nullptr ? nullptr
                        : std::make_unique<source::ReportedMemory>(clock_, agent_->directory()),
      enroll::SignTeller(clock_, {flags_.enroll, flags_.enroll_at}, enrolled.identity,
                         enrolled.pod));
}

// With TLS, stock clients need a port of their own, because they present no certificate.
bool SidecarServer::OnePortForAll() const {
  return flags_.insecure_plaintext && flags_.compat_listen == flags_.listen;
}

absl::Status SidecarServer::ServeStockClients() {
  if (flags_.compat_listen.empty() || OnePortForAll()) return absl::OkStatus();
  ASSIGN_OR_RETURN(stock_server_,
                   GrpcServer::Start({.listen = flags_.compat_listen,
                                      .credentials = grpc::InsecureServerCredentials()},
                                     quota_, profiler_));
  return absl::OkStatus();
}

absl::Status SidecarServer::ServeMetrics() {
  if (flags_.http_listen.empty()) return absl::OkStatus();
  const auto tpus = std::make_shared<service::TpuMetrics>(clock_, flags_.tpu_metrics);
  ASSIGN_OR_RETURN(
      http_, http::Server::Start(
                 {.listen = flags_.http_listen},
                 {{"/healthz",
                   [](const http::Request&) {
                     return http::Page{200, "ok\n"};
                   }},
                  {"/metrics", [this, tpus](const http::Request&) { return Metrics(*tpus); }}}));
  return absl::OkStatus();
}

http::Page SidecarServer::Metrics(service::TpuMetrics& tpus) {
  service::SidecarMetrics::State state{.holder = runner_.holder()};
  if (spool_ != nullptr) {
    state.spool_bytes = spool_->used_bytes();
    if (const std::optional<WallTime> oldest = spool_->oldest())
      state.spool_age = std::max(Nanos{0}, clock_.WallNow() - *oldest);
  }
  if (agent_ != nullptr) {
    state.agent_connected = agent_->connected();
    state.kineto_refused = agent_->kineto_refused();
  }
  state.collectives = collective_counts_.Read();
  state.tpus = tpus.Read();
  return http::MetricsPage(metrics_.Render(state));
}

bool SidecarServer::Stop() {
  LogInfo("ending", {{"grace_seconds", StrCat(flags_.grace_seconds)}});
  const Nanos grace = std::chrono::seconds(flags_.grace_seconds);
  const MonoTime began = clock_.MonoNow();
  if (!runner_.Drain(grace, kRecordingPatience)) LogWarning("a capture did not end in time");
  runner_.Suspend();
  runner_.Drain(kSuspendPatience);
  delivery_.LastTry(grace - (clock_.MonoNow() - began));
  delivery_.Stop();
  // Ends the Watch streams only now, so that clients get the last report of their capture first.
  worker_.Stop();
  const auto deadline = DeadlineIn(kStopPatience);
  // Stops the enroller first, because its thread may be about to start the workers' server.
  if (enroller_) enroller_->Stop();
  signs_.reset();
  if (worker_server_ != nullptr) worker_server_->Stop(deadline);
  if (stock_server_ != nullptr) stock_server_->Stop(deadline);
  return !has_failed_;
}

}  // namespace strobe
