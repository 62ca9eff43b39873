#include "sidecar/main/flags.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "collector/store/pace.h"
#include "common/base/duration.h"
#include "common/base/log.h"
#include "common/base/strings.h"
#include "common/base/version.h"
#include "common/text/ip_text.h"
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
                 "where to serve; of several ports, as in [::]:9470,9480, the first free one; port "
                 "0 picks one")
      ->capture_default_str()
      ->type_name("ADDRESS")
      ->envname("STROBE_LISTEN");
  app.add_option("--compat-listen", flags.compat_listen,
                 "serve stock profiler clients (client.trace, jax.collect_profile, XProf); without "
                 "TLS it may be the same as --listen [off]")
      ->type_name("ADDRESS")
      ->envname("STROBE_COMPAT_LISTEN")
      ->group("Profiler servers of the trainer");
  app.add_option("--http-listen", flags.http_listen, "serve /metrics and /healthz [off]")
      ->type_name("ADDRESS")
      ->envname("STROBE_HTTP_LISTEN");
  app.add_option("--worker-name", flags.worker_name,
                 "name of this worker's trace files [$POD_NAME, else the host name]")
      ->type_name("NAME")
      ->envname("STROBE_WORKER_NAME");
}

void AddIdentityFlags(CLI::App& app, SidecarFlags& flags) {
  app.option_defaults()->group("Who may call it");
  app.add_flag("--insecure-plaintext", flags.insecure_plaintext,
               "serve without TLS: every client that reaches the port may profile the trainer")
      ->envname("STROBE_INSECURE_PLAINTEXT")
      ->group(kCommonFlags);
  app.add_option("--enroll", flags.enroll,
                 "where the operator certifies this worker; --listen then accepts only that "
                 "operator, with TLS")
      ->type_name("ADDRESS")
      ->envname("STROBE_ENROLL");
  app.add_option("--enroll-at", flags.enroll_at,
                 "connect here instead, if the pod cannot resolve the name in --enroll, for which "
                 "the certificate must still be")
      ->type_name("ADDRESS")
      ->envname("STROBE_ENROLL_AT");
  app.add_option("--token-file", flags.token_file,
                 "the pod's projected service-account token with the audience strobe")
      ->capture_default_str()
      ->type_name("FILE")
      ->envname("STROBE_TOKEN_FILE");
  app.add_option("--roots", flags.roots,
                 "certificates, as PEM text (not a file), of the authorities that may have issued "
                 "the operator's certificate")
      ->envname("STROBE_ROOTS");
  app.add_option("--state-dir", flags.state_dir,
                 "keeps newer roots across restarts of the container")
      ->type_name("FOLDER")
      ->envname("STROBE_STATE_DIR");
}

void AddSourceFlags(CLI::App& app, SidecarFlags& flags) {
  app.option_defaults()->group("Profiler servers of the trainer");
  app.add_option("--framework", flags.framework,
                 "profiler servers of the trainer, separated by commas")
      ->delimiter(',')
      ->capture_default_str()
      ->type_name("ADDRESS")
      ->envname("STROBE_FRAMEWORK")
      ->group(kCommonFlags);
  app.add_option("--shared-dir", flags.shared_dir,
                 "folder that the trainer sees at the same path, for profiler servers from before "
                 "2025-09")
      ->type_name("FOLDER")
      ->envname("STROBE_SHARED_DIR");
  app.add_flag("--host-tracing-on-old-servers", flags.risks.host_tracing_on_old_servers,
               "also record host annotations through servers from before 2026; this crashes "
               "trainers with jaxlib 0.5.0 to 0.8.3 and without TensorFlow")
      ->envname("STROBE_HOST_TRACING_ON_OLD_SERVERS");
  app.add_flag("--gpu-tracing-by-servers", flags.risks.gpu_tracing_by_servers,
               "also record NVIDIA GPUs through servers of programs that did not announce "
               "themselves; the end of the recording can take the GPU from the program")
      ->envname("STROBE_GPU_TRACING_BY_SERVERS");
  app.add_flag(
         "--allow-stalls", flags.allow_stalls,
         "also record programs with a jaxlib before 0.8.2, which stand still for up to several "
         "seconds when a recording stops; otherwise they end as VersionMismatch")
      ->envname("STROBE_ALLOW_STALLS");
}

void AddKinetoFlags(CLI::App& app, SidecarFlags& flags) {
  app.option_defaults()->group("PyTorch's Kineto");
  app.add_option("--kineto-daemon", flags.kineto_daemon,
                 "serve as the daemon of PyTorch's Kineto, as dynolog does, with traces in this "
                 "folder, which trainers see at the same path; see docs/how-to/without-python.md "
                 "[off]")
      ->type_name("FOLDER")
      ->envname("STROBE_KINETO_DAEMON");
  app.add_flag("--kineto-socket-files", flags.kineto_socket_files,
               "also create Kineto's sockets in that folder, for trainers with "
               "KINETO_IPC_SOCKET_DIR; for pods on the host's network, which share abstract socket "
               "names")
      ->envname("STROBE_KINETO_SOCKET_FILES");
  app.add_option(
         "--kineto-max-duration", flags.kineto_max_duration,
         "longest recording by Kineto, which cannot be ended early; of a longer window, only "
         "the beginning is recorded")
      ->capture_default_str()
      ->type_name("DURATION")
      ->envname("STROBE_KINETO_MAX_DURATION");
}

void AddAgentFlags(CLI::App& app, SidecarFlags& flags) {
  app.option_defaults()->group("Annotations, GPUs and the flight recorder");
  app.add_option("--agent-dir", flags.agent_dir,
                 "the trainer's $STROBE_DIR/agent, in which the agent creates its ring files [off]")
      ->type_name("FOLDER")
      ->envname("STROBE_AGENT_DIR")
      ->group(kCommonFlags);
  app.add_option("--install-dir", flags.install_dir,
                 "copy the agent and the Python package to this folder, the trainer's $STROBE_DIR, "
                 "before /healthz answers")
      ->type_name("FOLDER")
      ->envname("STROBE_INSTALL_DIR");
  app.add_flag("--agent-only-parent", flags.agent_only_parent,
               "serve only the process that started this one, and its descendants");
  app.add_option(
         "--containers", flags.containers,
         "containers, separated by commas, whose programs have STROBE_CONTAINER set to their "
         "container's name, so that a capture can record one container alone")
      ->delimiter(',')
      ->type_name("NAME")
      ->envname("STROBE_CONTAINERS");
  app.add_option(
         "--flight-recorder", flags.flight_recorder,
         "let programs with the agent record at all times, so that a capture can reach this "
         "far back, if their rings (STROBE_RING_KB) hold that much; 0s = off")
      ->capture_default_str()
      ->type_name("DURATION")
      ->envname("STROBE_FLIGHT_RECORDER");
  app.add_flag("--flight-recorder-devices", flags.flight_recorder_devices,
               "with --flight-recorder, also record GPUs at all times, as far back as 16 MiB hold, "
               "and with --tpu-metrics TPUs, through profiler servers; no other profiler in these "
               "programs can then record them");
  app.add_option("--tpu-metrics", flags.tpu_metrics,
                 "where libtpu serves TPU metrics, usually localhost:8431; they are shown with the "
                 "sidecar's own [off]")
      ->type_name("ADDRESS")
      ->envname("STROBE_TPU_METRICS");
}

void AddStorageFlags(CLI::App& app, SidecarFlags& flags) {
  app.option_defaults()->group("The way to the store");
  app.add_option("--spool-dir", flags.spool_dir,
                 "keeps traces until they are in their logdir; without it, a trace is lost if the "
                 "sidecar ends before the upload")
      ->type_name("FOLDER")
      ->envname("STROBE_SPOOL_DIR")
      ->group(kCommonFlags);
  app.add_option("--spool-size", flags.spool_size,
                 "maximum size of the traces in --spool-dir, such as 500MB; captures that do not "
                 "fit are refused with SpoolFull")
      ->transform(CLI::AsSizeValue(false))
      ->default_str("8GiB")
      ->envname("STROBE_SPOOL_SIZE");
  app.add_option("--spool-keep", flags.spool_keep,
                 "how long to keep and retry a trace that could not be uploaded")
      ->capture_default_str()
      ->type_name("DURATION")
      ->envname("STROBE_SPOOL_KEEP");
  app.add_option(
         "--upload-rate", flags.upload_rate,
         "maximum bytes per second of all uploads together, such as 100MB; at least 1MB, 0 = "
         "no limit")
      ->transform(CLI::AsSizeValue(false))
      ->default_str("0")
      ->envname("STROBE_UPLOAD_RATE");
  app.add_option("--storage-config", flags.storage_config,
                 "settings of object stores, in YAML; see docs/how-to/storage.md")
      ->type_name("FILE")
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
                 "create this file once the agent is installed, for --is-started; a sidecar that "
                 "cannot serve then retries instead of exiting, because the pod's other containers "
                 "wait for it")
      ->type_name("FILE")
      ->envname("STROBE_STARTED_FILE");
  app.add_option("--is-started", flags.is_started,
                 "exit 0 if this file of --started-file exists, and do nothing else; for startup "
                 "probes")
      ->type_name("FILE");
  app.add_option("--grace", flags.grace_seconds,
                 "how long a running capture and its upload may take after SIGTERM, less than the "
                 "pod's terminationGracePeriodSeconds; a capture still recording after 25 s is "
                 "cancelled")
      ->capture_default_str()
      ->type_name("SECONDS")
      ->check(CLI::Range(0, 3600));
  app.add_option("--log-level", flags.log_level, "debug, info, warning or error")
      ->capture_default_str()
      ->type_name("LEVEL")
      ->envname("STROBE_LOG_LEVEL")
      ->group(kCommonFlags);
  app.add_flag("--log-json", flags.log_json, "one JSON object per log line")
      ->envname("STROBE_LOG_JSON");
  app.footer(
      "Examples:\n"
      "  strobe-sidecar --agent-dir $STROBE_DIR/agent --insecure-plaintext   # Strobe's package\n"
      "  strobe-sidecar --framework localhost:9012 --insecure-plaintext      # profiler server");
}

absl::Status CheckListenFlags(const SidecarFlags& flags) {
  const std::pair<std::string_view, const std::string&> given[] = {
      {"--listen", flags.listen},
      {"--compat-listen", flags.compat_listen},
      {"--http-listen", flags.http_listen}};
  for (const auto& [flag, value] : given) {
    if (value.empty() && flag != "--listen") continue;
    for (const std::string& address : ListenAddresses(value)) {
      if (!IsListenAddress(address)) {
        return absl::InvalidArgumentError(
            StrCat(flag, " \"", value,
                   "\" must be host:port with a port from 0 to 65535, such as "
                   "[::]:9470"));
      }
    }
  }
  return absl::OkStatus();
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
  for (const auto check : {CheckIdentityFlags, CheckListenFlags, CheckStorageFlags,
                           CheckSourceFlags, CheckKinetoFlags}) {
    if (const absl::Status status = check(flags); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace strobe
