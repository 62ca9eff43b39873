// strobe-sidecar: flags and wiring.
#include <google/protobuf/stubs/logging.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <iostream>
#include <optional>

#include "absl/synchronization/mutex.h"
#include "collector/storage/pace.h"
#include "collector/storage/stores.h"
#include "common/base/duration.h"
#include "common/base/ending_signals.h"
#include "common/base/log.h"
#include "common/base/name_rules.h"
#include "common/base/strings.h"
#include "common/base/version.h"
#include "common/grpc_tls/credentials.h"
#include "common/http/http_server.h"
#include "sidecar/enroll/enroller.h"
#include "sidecar/main/install.h"
#include "sidecar/service/guarded_worker.h"
#include "sidecar/service/profiler_service.h"
#include "sidecar/service/sidecar_metrics.h"
#include "sidecar/service/worker_service.h"
#include "sidecar/source/agent_directory.h"
#include "sidecar/source/agent_source.h"
#include "sidecar/source/auto_source.h"
#include "sidecar/source/flight_recorder.h"
#include "sidecar/source/framework_source.h"
#include "sidecar/source/job_monitor.h"
#include "sidecar/spool/spool.h"
#include "sidecar/spool/upload_delivery.h"

namespace strobe {
namespace {

constexpr std::uint32_t kFlightLevel = 2;  // Of tracers.host; its default.

struct Flags {
  std::string listen = "0.0.0.0:9470";
  std::string compat_listen, http_listen;
  std::vector<std::string> framework = {"localhost:9012"};
  std::string shared_dir;
  std::string worker_name;
  std::string log_level = "info";
  bool log_json = false;
  bool insecure_plaintext = false;
  int grace_seconds = 25;
  std::vector<std::string> containers;
  std::string agent_dir, spool_dir, storage_config, spool_keep = "6h", flight_recorder = "0s";
  std::uint64_t spool_size = 8ull << 30;
  std::uint64_t upload_rate = 0;
  bool trust_logdir_options = false, exit_with_parent = false, agent_only_parent = false;
  bool host_tracing_on_old_servers = false;
  std::string enroll, token_file = "/var/run/secrets/strobe/token", roots, state_dir, install_dir;
};

std::string HostName() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

void AddFlags(CLI::App& app, Flags& flags) {
  app.set_version_flag("--version", kVersion);
  app.add_option("--listen", flags.listen, "host:port of strobe.v1.Worker; port 0 picks a free one")
      ->capture_default_str()
      ->envname("STROBE_LISTEN");
  app.add_option("--framework", flags.framework,
                 "host:port of each profiler server in the trainer; comma list for one per process")
      ->delimiter(',')
      ->capture_default_str()
      ->envname("STROBE_FRAMEWORK");
  app.add_option("--shared-dir", flags.shared_dir,
                 "directory that the trainer sees under the same path; only for profiler servers "
                 "from before 2025-09")
      ->envname("STROBE_SHARED_DIR");
  app.add_flag("--host-tracing-on-old-servers", flags.host_tracing_on_old_servers,
               "record host annotations also through profiler servers from before 2026; a trainer "
               "with jaxlib 0.5.0 to 0.8.3 that cannot import TensorFlow then crashes")
      ->envname("STROBE_HOST_TRACING_ON_OLD_SERVERS");
  app.add_option(
         "--worker-name", flags.worker_name,
         "file name of this worker's traces, without .xplane.pb [$POD_NAME, else the host name]")
      ->envname("STROBE_WORKER_NAME");
  app.add_option("--compat-listen", flags.compat_listen,
                 "host:port for stock profiler clients (client.trace, jax.collect_profile, XProf); "
                 "off when empty")
      ->envname("STROBE_COMPAT_LISTEN");
  app.add_option("--http-listen", flags.http_listen,
                 "host:port of /metrics and /healthz; off when empty")
      ->envname("STROBE_HTTP_LISTEN");
  app.add_flag("--insecure-plaintext", flags.insecure_plaintext,
               "serve without TLS: whoever reaches the port may profile the trainer")
      ->envname("STROBE_INSECURE_PLAINTEXT");
  app.add_option("--enroll", flags.enroll,
                 "host:port where the operator certifies this worker; the port is then served "
                 "with TLS to that operator alone")
      ->envname("STROBE_ENROLL");
  app.add_option("--token-file", flags.token_file,
                 "the pod's projected service-account token of audience strobe")
      ->capture_default_str()
      ->envname("STROBE_TOKEN_FILE");
  app.add_option("--roots", flags.roots,
                 "PEM text (not a file) of the authorities that the operator's certificate may "
                 "come from")
      ->envname("STROBE_ROOTS");
  app.add_option("--state-dir", flags.state_dir,
                 "directory where newer roots are remembered across restarts")
      ->envname("STROBE_STATE_DIR");
  app.add_option("--install-dir", flags.install_dir,
                 "directory, the trainer's $STROBE_DIR, into which the agent and the Python "
                 "package are copied before /healthz answers")
      ->envname("STROBE_INSTALL_DIR");
  app.add_flag("--exit-with-parent", flags.exit_with_parent,
               "end, as by SIGTERM, when the thread that started this ends");
  app.add_option("--grace", flags.grace_seconds,
                 "seconds to let a running capture finish on SIGTERM")
      ->capture_default_str()
      ->check(CLI::Range(0, 3600));
  app.add_option("--agent-dir", flags.agent_dir,
                 "directory where the agent in the trainer puts its rings: the trainer's "
                 "$STROBE_DIR/agent; off when empty")
      ->envname("STROBE_AGENT_DIR");
  app.add_flag("--agent-only-parent", flags.agent_only_parent,
               "serve the process that started this and its descendants, and leave the other "
               "programs of --agent-dir to their own sidecar");
  app.add_option(
         "--containers", flags.containers,
         "containers whose programs have STROBE_CONTAINER set to their container's name, so "
         "that a capture can be of one of them alone; comma list")
      ->delimiter(',')
      ->envname("STROBE_CONTAINERS");
  app.add_option("--flight-recorder", flags.flight_recorder,
                 "let programs with the agent record at all times, and captures reach back so far "
                 "before their start, as far as the programs' rings (STROBE_RING_KB) go; 0s = off")
      ->capture_default_str()
      ->envname("STROBE_FLIGHT_RECORDER");
  app.add_option("--spool-dir", flags.spool_dir,
                 "directory, such as an emptyDir, where traces are safe until their logdir has "
                 "them; without one a trace dies with the sidecar")
      ->envname("STROBE_SPOOL_DIR");
  app.add_option("--spool-size", flags.spool_size,
                 "most bytes of traces in it, such as 500MB or 8GiB; captures are refused with "
                 "SpoolFull when there is no room")
      ->transform(CLI::AsSizeValue(false))
      ->default_str("8GiB")
      ->envname("STROBE_SPOOL_SIZE");
  app.add_option("--spool-keep", flags.spool_keep,
                 "how long a trace that could not be uploaded is kept and tried again")
      ->capture_default_str()
      ->envname("STROBE_SPOOL_KEEP");
  app.add_option("--upload-rate", flags.upload_rate,
                 "most bytes per second of all uploads, such as 100MB, so that they leave the job "
                 "its network; at least 1MB, 0 = as fast as it goes")
      ->transform(CLI::AsSizeValue(false))
      ->default_str("0")
      ->envname("STROBE_UPLOAD_RATE");
  app.add_option("--storage-config", flags.storage_config,
                 "YAML file with endpoint, region, credentials... of s3, gs and az; see "
                 "docs/how-to/storage.md")
      ->envname("STROBE_STORAGE_CONFIG");
  app.add_flag("--trust-logdir-options", flags.trust_logdir_options,
               "take endpoint, proxy and ca_bundle from a logdir's URL too: whoever asks for a "
               "capture can then send this pod's identity to any server")
      ->envname("STROBE_TRUST_LOGDIR_OPTIONS");
  app.add_option("--log-level", flags.log_level, "debug, info, warning or error")
      ->capture_default_str()
      ->envname("STROBE_LOG_LEVEL");
  app.add_flag("--log-json", flags.log_json, "one JSON object per log line")
      ->envname("STROBE_LOG_JSON");
}

// The one sentence that says what is wrong with the flags; empty when nothing is.
std::string Complaint(const Flags& flags) {
  LogLevel level;
  if (!ParseLogLevel(flags.log_level, level))
    return "--log-level must be debug, info, warning or error";
  if (flags.insecure_plaintext == !flags.enroll.empty()) {
    return "give either --enroll HOST:PORT of the operator, for TLS, or --insecure-plaintext to "
           "accept that whoever reaches --listen may profile the trainer";
  }
  if (!flags.enroll.empty() && flags.roots.empty())
    return "--enroll needs --roots (or $STROBE_ROOTS): whom to believe to be the operator";
  if (const absl::StatusOr<Nanos> keep = ParseDuration(flags.spool_keep); !keep.ok())
    return StrCat("--spool-keep: ", Words(keep.status()));
  if (flags.upload_rate > 0 && flags.upload_rate < Pace::kSlowest)
    return "--upload-rate must be at least 1MB, or 0";
  if (const absl::StatusOr<Nanos> back = ParseDuration(flags.flight_recorder); !back.ok())
    return StrCat("--flight-recorder: ", Words(back.status()));
  else if (*back > std::chrono::minutes(10))
    return "--flight-recorder must be at most 10m";
  if (flags.agent_only_parent && *ParseDuration(flags.flight_recorder) > Nanos{0})
    return "--flight-recorder needs a directory of its own; remove --agent-only-parent";
  for (const std::string& address : flags.framework) {
    if (address.find(':') == std::string::npos)
      return StrCat("--framework \"", address, "\" is no host:port, such as localhost:9012");
  }
  return "";
}

// What records the programs of --agent-dir.
struct AgentParts {
  AgentParts(const Flags& flags, const Clock& clock, session::Source& framework,
             std::unique_ptr<AgentDirectory> shared)
      : directory(std::move(shared)),
        source(clock, *directory, OptionsOf(flags)),
        both(framework, source),
        monitor(clock, *directory) {
    if (OptionsOf(flags).idle_level > 0) recorder.emplace(*directory, kFlightLevel);
  }

  static AgentOptions OptionsOf(const Flags& flags) {
    const Nanos look_back = *ParseDuration(flags.flight_recorder);
    return {.look_back = look_back, .idle_level = look_back > Nanos{0} ? kFlightLevel : 0};
  }

  const std::unique_ptr<AgentDirectory> directory;
  AgentSource source;
  AutoSource both;
  RingMonitor monitor;
  std::optional<FlightRecorder> recorder;
};

absl::StatusOr<std::unique_ptr<AgentParts>> MakeAgentParts(const Flags& flags, const Clock& clock,
                                                           session::Source& framework) {
  if (flags.agent_dir.empty()) return nullptr;
  absl::StatusOr<std::unique_ptr<AgentDirectory>> directory =
      flags.agent_only_parent
          ? AgentDirectory::Join(flags.agent_dir, static_cast<std::uint32_t>(getppid()))
          : AgentDirectory::Own(flags.agent_dir);
  if (absl::IsFailedPrecondition(directory.status())) return directory.status();
  if (!directory.ok()) {
    // The trainer can do without: no reason to hold it up.
    LogError("annotations and GPU activity are off: the agent's directory cannot be used",
             {{"error", Words(directory.status())}});
    return nullptr;
  }
  return std::make_unique<AgentParts>(flags, clock, framework, *std::move(directory));
}

int Serve(const Flags& flags) {
  const EndingSignals ending;
  if (flags.exit_with_parent) prctl(PR_SET_PDEATHSIG, SIGTERM);
  const SystemClock clock;
  const absl::StatusOr<StorageConfig> config = ReadStorageConfig(flags.storage_config);
  if (!config.ok()) {
    LogError("the storage configuration is wrong", {{"error", Words(config.status())}});
    return 2;
  }
  if (!flags.install_dir.empty()) {
    // The trainer can do without: no reason to hold it up.
    if (const absl::Status installed = InstallAgent(flags.install_dir); !installed.ok())
      LogError("annotations and GPU activity are off: the agent cannot be installed",
               {{"error", Words(installed)}});
  }
  std::unique_ptr<Spool> spool;
  if (!flags.spool_dir.empty()) {
    absl::StatusOr<std::unique_ptr<Spool>> opened = Spool::Open(flags.spool_dir, flags.spool_size);
    if (!opened.ok()) {
      LogError("the spool cannot be used", {{"error", Words(opened.status())}});
      return 1;
    }
    spool = *std::move(opened);
  }
  SidecarMetrics metrics;
  Stores stores(*config, flags.trust_logdir_options ? UrlOptions::kAll : UrlOptions::kHarmless,
                [&metrics](const absl::Status& failure, Nanos wait) {
                  metrics.UploadRetried();
                  LogWarning("a store failed and is asked again",
                             {{"error", Words(failure)}, {"in", FormatDuration(wait)}});
                });
  FrameworkSource framework(clock,
                            {flags.framework, flags.shared_dir, flags.host_tracing_on_old_servers});
  absl::StatusOr<std::unique_ptr<AgentParts>> parts = MakeAgentParts(flags, clock, framework);
  if (!parts.ok()) {
    LogError("the agent's directory cannot be served", {{"error", Words(parts.status())}});
    return 1;
  }
  AgentParts* const agent = parts->get();  // Null without --agent-dir.
  session::Source& source =
      agent == nullptr ? static_cast<session::Source&>(framework) : agent->both;
  UploadDelivery delivery(clock, stores, spool.get(),
                          {*ParseDuration(flags.spool_keep), flags.upload_rate},
                          {.late = [&metrics] { metrics.KeptTraceArrived(); },
                           .dropped = [&metrics] { metrics.KeptTraceDropped(); }});
  session::CaptureRunner runner(
      clock, source, delivery,
      [&metrics](const v1::Report& report) { metrics.CaptureEnded(report); },
      agent == nullptr ? nullptr : &agent->monitor);
  if (spool != nullptr) runner.Restore(spool->recovered());
  std::function<std::uint64_t()> spool_free;
  if (spool != nullptr) spool_free = [&spool] { return spool->free_bytes(); };
  WorkerService worker(ToSafeName(flags.worker_name, 240), clock, runner, source, stores,
                       spool_free,
                       flags.agent_dir.empty() ? std::vector<std::string>() : flags.containers);
  GuardedWorker guarded(worker);
  ProfilerFace face(clock, runner, stores);

  grpc::EnableDefaultHealthCheckService(true);
  grpc::ResourceQuota quota;
  quota.SetMaxThreads(48);
  int compat_port = 0;
  std::atomic<int> port{0};
  std::unique_ptr<grpc::Server> server;
  const auto serve_workers = [&](const std::shared_ptr<grpc::ServerCredentials>& credentials) {
    grpc::ServerBuilder builder;
    builder.SetResourceQuota(quota);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // A port that is taken is an error.
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10000);
    builder.SetMaxReceiveMessageSize(5 << 20);
    int bound = 0;
    builder.AddListeningPort(flags.listen, credentials, &bound);
    builder.RegisterService(&guarded);
    server = builder.BuildAndStart();
    if (server == nullptr || bound == 0) {
      LogError("cannot listen; is the port taken?", {{"address", flags.listen}});
      return false;
    }
    port = bound;
    return true;
  };
  std::atomic<bool> failed{false};
  std::optional<Enroller> enroller;
  if (flags.insecure_plaintext) {
    if (!serve_workers(grpc::InsecureServerCredentials())) return 1;
  } else {
    ObserveFailedHandshakes([&metrics] { metrics.PeerRefused("handshake"); });
    // The trainer does not wait for the operator: the port is served once there is a certificate.
    enroller.emplace(
        clock, Enroller::Options{flags.enroll, flags.token_file, flags.roots, flags.state_dir},
        [&](const LiveIdentity& identity) {
          const auto refused = [&metrics](PeerVerdict verdict) {
            metrics.PeerRefused(std::string(Name(verdict)));
          };
          if (!serve_workers(MutualServerCredentials(clock, identity, kOperatorName, refused))) {
            failed = true;
            return EndingSignals::End();
          }
          LogInfo("strobe-sidecar serves its operator", {{"port", StrCat(port.load())}});
        });
    enroller->Start();
  }
  std::unique_ptr<grpc::Server> compat;
  if (!flags.compat_listen.empty()) {
    grpc::ServerBuilder compat_builder;
    compat_builder.SetResourceQuota(quota);
    compat_builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    compat_builder.AddListeningPort(flags.compat_listen, grpc::InsecureServerCredentials(),
                                    &compat_port);
    compat_builder.RegisterService(&face);
    compat = compat_builder.BuildAndStart();
    if (compat == nullptr || compat_port == 0) {
      LogError("cannot listen for stock clients; is the port taken?",
               {{"address", flags.compat_listen}});
      return 1;
    }
  }
  std::unique_ptr<HttpServer> http;
  if (!flags.http_listen.empty()) {
    absl::StatusOr<std::unique_ptr<HttpServer>> started = HttpServer::Start(
        {.listen = flags.http_listen},
        {{"/healthz",
          [](const Request&) {
            return Page{200, "ok\n"};
          }},
         {"/metrics", [&](const Request&) {
            const std::vector<v1::Source> agents =
                agent == nullptr ? std::vector<v1::Source>() : agent->source.Probe(Nanos{0});
            return MetricsPage(
                metrics.Render({runner.holder(), spool == nullptr ? 0 : spool->used_bytes(),
                                std::any_of(agents.begin(), agents.end(),
                                            [](const auto& s) { return s.ready(); })}));
          }}});
    if (!started.ok()) {
      LogError("cannot serve metrics", {{"error", std::string(started.status().message())}});
      return 1;
    }
    http = *std::move(started);
  }
  LogInfo("strobe-sidecar serves", {{"version", kVersion},
                                    {"worker", ToSafeName(flags.worker_name, 240)},
                                    {"port", StrCat(port.load())},
                                    {"compat_port", StrCat(compat_port)},
                                    {"http_port", StrCat(http == nullptr ? 0 : http->port())}});
  ending.Wait();
  LogInfo("ending", {{"grace_seconds", StrCat(flags.grace_seconds)}});
  if (!runner.Drain(std::chrono::seconds(flags.grace_seconds)))
    LogWarning("a capture did not end in time");
  runner.Suspend();
  runner.Drain(std::chrono::seconds(2));
  // Watchers still get the last report before their streams end.
  worker.Stop();
  const auto deadline = std::chrono::system_clock::now() + std::chrono::seconds(1);
  if (enroller) enroller->Stop();
  if (server != nullptr) server->Shutdown(deadline);
  if (compat != nullptr) compat->Shutdown(deadline);
  server.reset();  // Before the identity that it judges its callers by.
  return failed ? 1 : 0;
}

}  // namespace
}  // namespace strobe

int main(int argc, char** argv) {
  strobe::IgnoreBrokenPipes();
  // It writes a line for each message that cannot be parsed, where strangers could fill the log.
  google::protobuf::SetLogHandler(nullptr);
  // Debian builds abseil to search for lock cycles at each of gRPC's locks.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  strobe::Flags flags;
  const char* pod = std::getenv("POD_NAME");
  flags.worker_name = pod != nullptr && *pod != '\0' ? pod : strobe::HostName();
  CLI::App app(
      "Records this worker's traces when the Strobe operator (or `strobe capture`) says so.\n"
      "Example: strobe-sidecar --framework localhost:9999 --insecure-plaintext",
      "strobe-sidecar");
  strobe::AddFlags(app, flags);
  CLI11_PARSE(app, argc, argv);
  if (const std::string complaint = strobe::Complaint(flags); !complaint.empty()) {
    std::cerr << "strobe-sidecar: " << complaint << "\n";
    return 2;
  }
  strobe::LogLevel level = strobe::LogLevel::kInfo;
  strobe::ParseLogLevel(flags.log_level, level);
  strobe::InitLog(level, flags.log_json ? strobe::LogFormat::kJson : strobe::LogFormat::kText);
  return strobe::Serve(flags);
}
