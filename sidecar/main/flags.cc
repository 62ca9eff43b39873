#include "sidecar/main/flags.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <cstdlib>

#include "collector/store/pace.h"
#include "common/base/duration.h"
#include "common/base/log.h"
#include "common/base/strings.h"
#include "common/base/version.h"
#include "sidecar/source/kineto/kineto_order.h"

namespace strobe {
namespace {

constexpr Nanos kMaxFlightRecorder = std::chrono::minutes(10);
constexpr Nanos kMinKinetoDuration = std::chrono::milliseconds(1),
                kMaxKinetoDuration = std::chrono::minutes(10);

// The heading that --help shows first; each rare flag stands under its subject.
constexpr char kCommonFlags[] = "Options";

std::string DefaultWorkerName() {
  if (const char* pod = std::getenv("POD_NAME"); pod != nullptr && *pod != '\0') return pod;
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return host.data();
}

void AddServerFlags(CLI::App& app, SidecarFlags& flags) {
  app.add_option("--listen", flags.listen,
                 "host:port of strobe.v1.Worker; [::] listens on IPv6 and IPv4; port 0 picks a "
                 "free one; of several ports, as in [::]:9470,9480, the first free one is used")
      ->capture_default_str()
      ->envname("STROBE_LISTEN");
  app.add_option("--compat-listen", flags.compat_listen,
                 "host:port for stock profiler clients (client.trace, jax.collect_profile, XProf); "
                 "off when empty; without TLS it may be the same as --listen")
      ->envname("STROBE_COMPAT_LISTEN")
      ->group("Profiler servers of the trainer");
  app.add_option("--http-listen", flags.http_listen,
                 "host:port of /metrics and /healthz; [::] listens on IPv6 and IPv4; off when "
                 "empty")
      ->envname("STROBE_HTTP_LISTEN");
  app.add_option(
         "--worker-name", flags.worker_name,
         "file name of this worker's traces, without .xplane.pb [$POD_NAME, else the host name]")
      ->envname("STROBE_WORKER_NAME");
}

void AddIdentityFlags(CLI::App& app, SidecarFlags& flags) {
  app.option_defaults()->group("Who may call it");
  app.add_flag("--insecure-plaintext", flags.insecure_plaintext,
               "serve without TLS: every client that reaches the port may profile the trainer")
      ->envname("STROBE_INSECURE_PLAINTEXT")
      ->group(kCommonFlags);
  app.add_option("--enroll", flags.enroll,
                 "host:port where the operator certifies this worker; --listen is then served with "
                 "TLS and accepts only that operator")
      ->envname("STROBE_ENROLL");
  app.add_option("--enroll-at", flags.enroll_at,
                 "host:port to connect to instead of that of --enroll, for pods that cannot "
                 "resolve its name; the certificate must still be for the name in --enroll")
      ->envname("STROBE_ENROLL_AT");
  app.add_option("--token-file", flags.token_file,
                 "the pod's projected service-account token with the audience strobe")
      ->capture_default_str()
      ->envname("STROBE_TOKEN_FILE");
  app.add_option("--roots", flags.roots,
                 "certificates, as PEM text (not a file), of the authorities that may have issued "
                 "the operator's certificate")
      ->envname("STROBE_ROOTS");
  app.add_option("--state-dir", flags.state_dir,
                 "directory that keeps newer roots across restarts of the container")
      ->envname("STROBE_STATE_DIR");
}

void AddSourceFlags(CLI::App& app, SidecarFlags& flags) {
  app.option_defaults()->group("Profiler servers of the trainer");
  app.add_option("--framework", flags.framework,
                 "host:port of the profiler server in the trainer; a comma-separated list if "
                 "several processes have one")
      ->delimiter(',')
      ->capture_default_str()
      ->envname("STROBE_FRAMEWORK")
      ->group(kCommonFlags);
  app.add_option("--shared-dir", flags.shared_dir,
                 "directory that the trainer sees at the same path; needed only for profiler "
                 "servers from before 2025-09")
      ->envname("STROBE_SHARED_DIR");
  app.add_flag("--host-tracing-on-old-servers", flags.risks.host_tracing_on_old_servers,
               "also record host annotations through profiler servers from before 2026; this "
               "crashes a trainer with jaxlib 0.5.0 to 0.8.3 that cannot import TensorFlow")
      ->envname("STROBE_HOST_TRACING_ON_OLD_SERVERS");
  app.add_flag("--gpu-tracing-by-servers", flags.risks.gpu_tracing_by_servers,
               "also record NVIDIA GPUs through profiler servers of programs that did not announce "
               "themselves; the end of such a recording can take the GPU from the program")
      ->envname("STROBE_GPU_TRACING_BY_SERVERS");
  app.add_flag(
         "--allow-stalls", flags.allow_stalls,
         "also record programs with a jaxlib before 0.8.2, whose training pauses for up to several "
         "seconds when a recording stops; without this flag, they end as VersionMismatch")
      ->envname("STROBE_ALLOW_STALLS");
}

void AddKinetoFlags(CLI::App& app, SidecarFlags& flags) {
  app.option_defaults()->group("PyTorch's Kineto");
  app.add_option(
         "--kineto-daemon", flags.kineto_daemon,
         "serve as the daemon of PyTorch's Kineto (as dynolog does); the value is a directory for "
         "traces, which trainers see at the same path; off when empty; see "
         "docs/how-to/without-python.md")
      ->envname("STROBE_KINETO_DAEMON");
  app.add_flag("--kineto-socket-files", flags.kineto_socket_files,
               "also create Kineto's sockets in that directory, for trainers that have "
               "KINETO_IPC_SOCKET_DIR set to it; for pods that use the host's network, which share "
               "abstract socket names with other pods")
      ->envname("STROBE_KINETO_SOCKET_FILES");
  app.add_option("--kineto-max-duration", flags.kineto_max_duration,
                 "longest recording by Kineto's daemon; it cannot be ended early. Of a longer "
                 "window, only the beginning is recorded")
      ->capture_default_str()
      ->envname("STROBE_KINETO_MAX_DURATION");
}

void AddAgentFlags(CLI::App& app, SidecarFlags& flags) {
  app.option_defaults()->group("Annotations, GPUs and the flight recorder");
  app.add_option("--agent-dir", flags.agent_dir,
                 "directory where the agent in the trainer creates its ring files: the trainer's "
                 "$STROBE_DIR/agent; off when empty")
      ->envname("STROBE_AGENT_DIR")
      ->group(kCommonFlags);
  app.add_option("--install-dir", flags.install_dir,
                 "directory (the trainer's $STROBE_DIR) to which the agent and the Python package "
                 "are copied before /healthz answers")
      ->envname("STROBE_INSTALL_DIR");
  app.add_flag("--agent-only-parent", flags.agent_only_parent,
               "serve only the process that started this one and its descendants; leave the other "
               "programs of --agent-dir to their own sidecar");
  app.add_option("--containers", flags.containers,
                 "comma-separated names of the containers whose programs have STROBE_CONTAINER set "
                 "to the name of their container, so that a capture can record one container alone")
      ->delimiter(',')
      ->envname("STROBE_CONTAINERS");
  app.add_option(
         "--flight-recorder", flags.flight_recorder,
         "let programs with the agent record at all times, so that a capture can reach back this "
         "far before its start, if their rings (STROBE_RING_KB) hold that much; 0s = off")
      ->capture_default_str()
      ->envname("STROBE_FLIGHT_RECORDER");
  app.add_flag("--flight-recorder-devices", flags.flight_recorder_devices,
               "with --flight-recorder, also record the GPUs of programs at all times, as far back "
               "as 16 MiB hold; no other profiler in these programs can record the GPUs");
  app.add_option("--tpu-metrics", flags.tpu_metrics,
                 "host:port where libtpu serves the metrics of this worker's TPUs, usually "
                 "localhost:8431, to be shown with the sidecar's own; off when empty")
      ->envname("STROBE_TPU_METRICS");
}

void AddStorageFlags(CLI::App& app, SidecarFlags& flags) {
  app.option_defaults()->group("The way to the store");
  app.add_option("--spool-dir", flags.spool_dir,
                 "directory, such as an emptyDir, that keeps traces until they are in their "
                 "logdir; without it, a trace is lost if the sidecar ends before the upload")
      ->envname("STROBE_SPOOL_DIR")
      ->group(kCommonFlags);
  app.add_option("--spool-size", flags.spool_size,
                 "maximum size of the traces in --spool-dir, such as 500MB or 8GiB; when there is "
                 "no room, captures are refused with SpoolFull")
      ->transform(CLI::AsSizeValue(false))
      ->default_str("8GiB")
      ->envname("STROBE_SPOOL_SIZE");
  app.add_option("--spool-keep", flags.spool_keep,
                 "how long a trace that could not be uploaded is kept and retried")
      ->capture_default_str()
      ->envname("STROBE_SPOOL_KEEP");
  app.add_option("--upload-rate", flags.upload_rate,
                 "maximum bytes per second of all uploads together, such as 100MB, to leave the "
                 "network to the job; at least 1MB, 0 = no limit")
      ->transform(CLI::AsSizeValue(false))
      ->default_str("0")
      ->envname("STROBE_UPLOAD_RATE");
  app.add_option("--storage-config", flags.storage_config,
                 "YAML file with the settings of object stores; see docs/how-to/storage.md")
      ->envname("STROBE_STORAGE_CONFIG")
      ->group(kCommonFlags);
  app.add_flag("--trust-logdir-options", flags.trust_logdir_options,
               "also take endpoint, proxy and ca_bundle from a logdir's URL; a user who requests a "
               "capture can then send this pod's identity to any server")
      ->envname("STROBE_TRUST_LOGDIR_OPTIONS");
}

void AddProcessFlags(CLI::App& app, SidecarFlags& flags) {
  app.option_defaults()->group("Start, end and log");
  app.add_flag("--exit-with-parent", flags.exit_with_parent,
               "end, as on SIGTERM, when the thread that started this process ends");
  app.add_option("--started-file", flags.started_file,
                 "file that is created as soon as the agent is installed, for --is-started; with "
                 "it, a sidecar that cannot serve retries instead of exiting, because the other "
                 "containers of its pod wait for it")
      ->envname("STROBE_STARTED_FILE");
  app.add_option("--is-started", flags.is_started,
                 "only check whether this file of --started-file exists, and exit with 0 if it "
                 "does; for startup probes");
  app.add_option(
         "--grace", flags.grace_seconds,
         "seconds that a running capture, with its upload, has to finish after SIGTERM; a "
         "capture that is not recorded after 25 s is cancelled. The value must be less than "
         "the pod's terminationGracePeriodSeconds")
      ->capture_default_str()
      ->check(CLI::Range(0, 3600));
  app.add_option("--log-level", flags.log_level, "debug, info, warning or error")
      ->capture_default_str()
      ->envname("STROBE_LOG_LEVEL")
      ->group(kCommonFlags);
  app.add_flag("--log-json", flags.log_json, "one JSON object per log line")
      ->envname("STROBE_LOG_JSON");
}

absl::Status CheckIdentityFlags(const SidecarFlags& flags) {
  // One of the two is required, so that nobody serves plain text without having asked for it.
  if (flags.insecure_plaintext == !flags.enroll.empty()) {
    return absl::InvalidArgumentError(
        "give either --enroll HOST:PORT of the operator, for TLS, or --insecure-plaintext to "
        "accept that every client that reaches --listen may profile the trainer");
  }
  if (!flags.enroll.empty() && flags.compat_listen == flags.listen) {
    return absl::InvalidArgumentError(
        "--compat-listen must differ from --listen, because stock clients do not speak TLS");
  }
  if (!flags.enroll.empty() && flags.roots.empty()) {
    return absl::InvalidArgumentError(
        "--enroll needs --roots (or $STROBE_ROOTS), which says who may be the operator");
  }
  return absl::OkStatus();
}

absl::Status CheckSourceFlags(const SidecarFlags& flags) {
  const absl::StatusOr<Nanos> look_back = ParseDuration(flags.flight_recorder);
  if (!look_back.ok())
    return absl::InvalidArgumentError(StrCat("--flight-recorder: ", MessageOf(look_back.status())));
  if (*look_back > kMaxFlightRecorder)
    return absl::InvalidArgumentError("--flight-recorder must be at most 10m");
  // The flight recorder gives orders for the whole directory, which a guest may not do.
  if (flags.agent_only_parent && *look_back > Nanos{0}) {
    return absl::InvalidArgumentError(
        "--flight-recorder needs a directory of its own; remove --agent-only-parent");
  }
  if (flags.flight_recorder_devices && *look_back == Nanos{0}) {
    return absl::InvalidArgumentError(
        "--flight-recorder-devices needs --flight-recorder, such as --flight-recorder=30s");
  }
  for (const std::string& address : flags.framework) {
    if (address.find(':') == std::string::npos) {
      return absl::InvalidArgumentError(
          StrCat("--framework \"", address, "\" is not a host:port, such as localhost:9012"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckKinetoFlags(const SidecarFlags& flags) {
  const absl::StatusOr<Nanos> most = ParseDuration(flags.kineto_max_duration);
  if (!most.ok())
    return absl::InvalidArgumentError(StrCat("--kineto-max-duration: ", MessageOf(most.status())));
  if (*most < kMinKinetoDuration || *most > kMaxKinetoDuration)
    return absl::InvalidArgumentError("--kineto-max-duration must be from 1ms to 10m");
  if (flags.kineto_daemon.empty()) return absl::OkStatus();
  if (const std::string why = source::WhyNoKinetoDirectory(flags.kineto_daemon); !why.empty())
    return absl::InvalidArgumentError(
        StrCat("--kineto-daemon \"", flags.kineto_daemon, "\" ", why));
  if (flags.agent_dir.empty() || flags.agent_only_parent) {
    return absl::InvalidArgumentError(
        "--kineto-daemon serves all processes of a pod and needs --agent-dir without "
        "--agent-only-parent");
  }
  return absl::OkStatus();
}

absl::Status CheckStorageFlags(const SidecarFlags& flags) {
  if (const absl::StatusOr<Nanos> keep = ParseDuration(flags.spool_keep); !keep.ok())
    return absl::InvalidArgumentError(StrCat("--spool-keep: ", MessageOf(keep.status())));
  if (flags.upload_rate > 0 && flags.upload_rate < storage::Pace::kMinRate)
    return absl::InvalidArgumentError("--upload-rate must be at least 1MB, or 0");
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> ListenAddresses(const std::string& listen) {
  const std::size_t colon = listen.rfind(':');
  if (colon == std::string::npos) return {listen};
  std::vector<std::string> addresses;
  for (const std::string& port : Split(listen.substr(colon + 1), ','))
    addresses.push_back(StrCat(listen.substr(0, colon), ":", port));
  return addresses;
}

void AddFlags(CLI::App& app, SidecarFlags& flags) {
  flags.worker_name = DefaultWorkerName();
  app.set_version_flag("--version", kVersion);
  AddServerFlags(app, flags);
  AddIdentityFlags(app, flags);
  AddSourceFlags(app, flags);
  AddKinetoFlags(app, flags);
  AddAgentFlags(app, flags);
  AddStorageFlags(app, flags);
  AddProcessFlags(app, flags);
}

absl::Status CheckFlags(const SidecarFlags& flags) {
  LogLevel level;
  if (!ParseLogLevel(flags.log_level, level))
    return absl::InvalidArgumentError("--log-level must be debug, info, warning or error");
  for (const auto check :
       {CheckIdentityFlags, CheckStorageFlags, CheckSourceFlags, CheckKinetoFlags}) {
    if (const absl::Status status = check(flags); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace strobe
