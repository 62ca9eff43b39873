#include "cli/capture_command.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <iostream>

#include "cli/addresses.h"
#include "cli/local_worker.h"
#include "cli/report_table.h"
#include "cli/server_saves.h"
#include "cli/storage_flags.h"
#include "collector/storage/stores.h"
#include "common/base/duration.h"
#include "common/base/name_rules.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "operator/core/capture_attempt.h"
#include "operator/core/min_workers.h"
#include "operator/core/retry.h"
#include "operator/workers/grpc_worker.h"

namespace strobe {
namespace {

using std::chrono::milliseconds;

// Ctrl-C ends the recording and keeps it, as with other recorders; the second one, or SIGTERM,
// gives it up; the third one leaves without a word.
volatile std::sig_atomic_t g_interrupts = 0;

void OnInterrupt(int signal) {
  if (signal == SIGTERM && g_interrupts == 0) g_interrupts = 1;
  g_interrupts = g_interrupts + 1;
  if (g_interrupts > 2) _exit(128 + signal);
}

template <typename T>
absl::Status ParseOptional(std::string_view flag, const std::string& text, T& target) {
  if (text.empty()) return absl::OkStatus();
  const absl::StatusOr<Nanos> parsed = ParseDuration(text);
  if (!parsed.ok()) return absl::InvalidArgumentError(StrCat(flag, ": ", Words(parsed.status())));
  target = *parsed;
  return absl::OkStatus();
}

absl::StatusOr<CaptureSpec> ToSpec(const CaptureFlags& flags, std::size_t workers, WallTime now) {
  CaptureSpec spec;
  spec.request = StrCat("strobe capture on ", workers, " workers");
  spec.uid = StrCat("cli-", getpid(), "-", ToUnixNanos(now));
  ASSIGN_OR_RETURN(const Logdir logdir, Logdir::Parse(flags.logdir));
  spec.logdir = flags.logdir;
  spec.run = flags.run.empty()
                 ? DefaultRunName(now, "capture", StrCat(ToUnixNanos(now) % 100'000'000))
                 : flags.run;
  if (!IsSafeName(spec.run, 200)) {
    return absl::InvalidArgumentError(
        "--run must be 1 to 200 characters of [A-Za-z0-9._-], not starting with a dot");
  }
  const absl::StatusOr<Nanos> duration = ParseDuration(flags.duration);
  if (!duration.ok() || *duration < milliseconds(1) || *duration > std::chrono::minutes(10)) {
    return absl::InvalidArgumentError(StrCat("--duration \"", flags.duration,
                                             "\" must be a duration from 1ms to 10m, such as 2s"));
  }
  spec.duration = *duration;
  RETURN_IF_ERROR(ParseOptional("--delay", flags.delay, spec.delay));
  RETURN_IF_ERROR(ParseOptional("--guard", flags.guard, spec.guard));
  RETURN_IF_ERROR(ParseOptional("--ready-timeout", flags.ready_timeout, spec.ready_timeout));
  RETURN_IF_ERROR(ParseOptional("--collect-timeout", flags.collect_timeout, spec.collect_timeout));
  if (spec.collect_timeout && *spec.collect_timeout < std::chrono::seconds(1))
    return absl::InvalidArgumentError("--collect-timeout must be at least 1s");
  if (spec.delay && *spec.delay > std::chrono::hours(1))
    return absl::InvalidArgumentError("--delay must be at most 1h");
  if (spec.ready_timeout > std::chrono::hours(1))
    return absl::InvalidArgumentError("--ready-timeout must be at most 1h");
  RETURN_IF_ERROR(ParseOptional("--max-skew", flags.max_skew, spec.max_skew));
  spec.on_late_start =
      flags.on_late_start == "Discard" ? OnLateStart::kDiscard : OnLateStart::kKeep;
  const absl::StatusOr<std::size_t> least = ResolveMinWorkers(flags.min_workers, workers);
  if (!least.ok())
    return absl::InvalidArgumentError(StrCat("--min-workers: ", Words(least.status())));
  spec.min_workers = *least;
  spec.attempts = flags.attempts;
  spec.tracers.set_host(flags.host);
  spec.tracers.set_host_filter(flags.host_filter);
  spec.tracers.set_device(flags.device);
  spec.tracers.set_python(flags.python);
  spec.max_bytes = flags.max_bytes;
  spec.abort_memory_percent = flags.abort_memory;
  spec.abort_slowdown_percent = flags.abort_slowdown;
  return spec;
}

int Refuse(const absl::Status& status) {
  std::cerr << "InvalidArgument: " << status.message() << "\n";
  return 2;
}

// Rewrites one line on a terminal; elsewhere one line per phase.
class ProgressLine {
 public:
  explicit ProgressLine(bool quiet) : quiet_(quiet), terminal_(isatty(STDERR_FILENO) == 1) {}
  void Show(const AttemptProgress& progress, int attempt, WallTime now) {
    if (quiet_) return;
    std::string text = StrCat("attempt ", attempt, ": ", Name(progress.phase), ", ", progress.armed,
                              "/", progress.matched, " armed");
    if (progress.phase == Phase::kDelay && progress.plan) {
      text +=
          StrCat(", starts in ", FormatDuration(std::max(progress.plan->instant - now, Nanos{0})));
    }
    if (!progress.waits_for.empty()) text += StrCat(", ", progress.waits_for);
    if (progress.ended > 0) text += StrCat(", ", progress.ended, " ended");
    if (terminal_)
      std::cerr << "\r\033[K" << text << std::flush;
    else if (progress.phase != shown_ || attempt != attempt_ || progress.waits_for != waits_for_)
      std::cerr << text << "\n";
    shown_ = progress.phase;
    waits_for_ = progress.waits_for;
    attempt_ = attempt;
  }
  void Clear() {
    if (!quiet_ && terminal_) std::cerr << "\r\033[K";
  }

 private:
  const bool quiet_, terminal_;
  Phase shown_ = Phase::kDone;
  std::string waits_for_;
  int attempt_ = 0;
};

std::shared_ptr<const AttemptResult> RunAttempt(CaptureAttempt::Dependencies deps,
                                                const CaptureSpec& spec, int number,
                                                const std::vector<Target>& targets,
                                                ProgressLine& line) {
  const auto attempt = CaptureAttempt::Start(deps, spec, number, targets, [] {});
  while (true) {
    const AttemptProgress progress = attempt->progress();
    if (progress.phase == Phase::kDone) return progress.result;
    line.Show(progress, number, deps.clock.WallNow());
    if (g_interrupts == 1) attempt->EndEarly();
    if (g_interrupts > 1) attempt->Cancel("interrupted");
    usleep(20'000);
  }
}

}  // namespace

void AddCaptureFlags(CLI::App& command, CaptureFlags& flags) {
  command
      .add_option("--workers", flags.workers,
                  "comma list of host:port or grpc://host:port; sidecars or stock profiler servers")
      ->required();
  command
      .add_option("--logdir", flags.logdir,
                  "where the run goes: an absolute path or a URL that every sidecar can write to")
      ->required();
  command.add_option("--duration", flags.duration, "how long to record, 1ms to 10m")
      ->capture_default_str();
  command.add_option("--delay", flags.delay, "from now to the start [the smallest safe one]");
  command
      .add_option("--ready-timeout", flags.ready_timeout,
                  "how long to wait for workers that are busy, or not there yet, at most 1h")
      ->capture_default_str();
  command.add_option("--collect-timeout", flags.collect_timeout,
                     "how long collecting and uploading may take [3m, or twice the duration]");
  command.add_option("--guard", flags.guard,
                     "recorded before and after [from measured lateness, at least 5ms]");
  command.add_option("--max-skew", flags.max_skew, "how far apart two starts may be");
  command
      .add_option("--on-late-start", flags.on_late_start,
                  "Keep or Discard traces that miss part of the window")
      ->capture_default_str()
      ->check(CLI::IsMember({"Keep", "Discard"}));
  command
      .add_option("--min-workers", flags.min_workers, "how many must end Ok, a number or percent")
      ->capture_default_str();
  command.add_option("--attempts", flags.attempts, "how often to try")
      ->capture_default_str()
      ->check(CLI::Range(1, 10));
  command.add_option("--run", flags.run, "name of the run [<time>_capture_<digits>]");
  command
      .add_option("--host-tracer-level", flags.host,
                  "0 off, 1 annotations, 2 costly operations too, 3 all")
      ->capture_default_str()
      ->check(CLI::Range(0, 3));
  command
      .add_option(
          "--host-filter", flags.host_filter,
          "bits: annotations that carry a mask are recorded when it meets this one; 0 = all")
      ->capture_default_str();
  command.add_option("--device-tracer-level", flags.device, "0 off, 1 on")
      ->capture_default_str()
      ->check(CLI::Range(0, 1));
  command.add_option("--python-tracer-level", flags.python, "0 off, 1 Python calls too")
      ->capture_default_str()
      ->check(CLI::Range(0, 1));
  command
      .add_option("--max-bytes-per-worker", flags.max_bytes, "refuse larger traces; 0 = any size")
      ->capture_default_str();
  command
      .add_option("--abort-memory", flags.abort_memory,
                  "end a worker's capture when its trainer, by its agent's word, uses so many "
                  "percent of a memory limit; 0 = never")
      ->capture_default_str()
      ->check(CLI::Range(0, 100));
  command
      .add_option("--abort-slowdown", flags.abort_slowdown,
                  "end a worker's capture when its training steps, by its agent's word, take so "
                  "many percent longer than before; 0 = never")
      ->capture_default_str()
      ->check(CLI::Range(0, 10000));
  command.add_flag(
      "--server-saves", flags.server_saves,
      "stock servers only: each server writes to the logdir itself; skew cannot be measured then");
  command.add_flag("--host-tracing-on-old-servers", flags.host_tracing_on_old_servers,
                   "stock servers only: record host annotations also through those from before "
                   "2026; jaxlib 0.5.0 to 0.8.3 without TensorFlow then crashes");
  command.add_option("--worker-list", flags.worker_list,
                     "Cloud TPU only: comma list of the slice's workers, profiled by the master "
                     "that --workers names");
  command.add_flag("--insecure-plaintext", flags.insecure_plaintext,
                   "talk to workers without TLS; the only way this build can");
  AddStorageConfigFlag(command, flags.storage_config);
  command.add_option("--output", flags.output, "table or json (the run's manifest)")
      ->capture_default_str()
      ->check(CLI::IsMember({"table", "json"}));
  command.add_flag("--quiet", flags.quiet, "no progress line");
  command.footer(
      "Examples:\n"
      "  strobe capture --insecure-plaintext --workers 10.0.0.2:9470,10.0.0.3:9470 --logdir "
      "/nfs/logs --duration 2s\n"
      "  strobe capture --insecure-plaintext --workers grpc://localhost:9012 --logdir /tmp/logs   "
      "# a stock server\n"
      "Ctrl-C ends the recording early and keeps it; pressed again, it gives the capture up.\n"
      "Exit code: 0 traces are in the logdir, 1 they are not, 2 a flag is wrong.");
}

int RunCapture(const CaptureFlags& flags) {
  if (!flags.insecure_plaintext) {
    return Refuse(absl::InvalidArgumentError(
        "this build talks to workers without TLS only; pass --insecure-plaintext to accept that"));
  }
  const absl::StatusOr<std::vector<Target>> targets = ParseWorkers(flags.workers);
  if (!targets.ok()) return Refuse(targets.status());
  const SystemClock clock;
  const absl::StatusOr<CaptureSpec> spec = ToSpec(flags, targets->size(), clock.WallNow());
  if (!spec.ok()) return Refuse(spec.status());
  if (flags.server_saves || !flags.worker_list.empty())
    return RunServerSaves(*spec, *targets, flags.worker_list, flags.host_tracing_on_old_servers,
                          clock);

  const absl::StatusOr<StorageConfig> config = ReadStorageConfig(flags.storage_config);
  if (!config.ok()) return Refuse(config.status());
  std::signal(SIGINT, OnInterrupt);
  std::signal(SIGTERM, OnInterrupt);
  Stores stores(*config, UrlOptions::kAll);
  GrpcWorkerConnector sidecars(clock, PlaintextCredentials);
  MixedConnector workers(clock, stores, sidecars, flags.host_tracing_on_old_servers);
  ThreadExecutor executor;
  ProgressLine line(flags.quiet);
  std::shared_ptr<const AttemptResult> result;
  for (int attempt = 1;; ++attempt) {
    result = RunAttempt({clock, executor, workers}, *spec, attempt, *targets, line);
    const std::optional<Nanos> wait = RetryAfter(*spec, *result);
    if (!wait || g_interrupts > 0) break;
    line.Clear();
    if (!flags.quiet)
      std::cerr << "attempt " << attempt << ": " << result->message << "; again in "
                << FormatDuration(*wait) << "\n";
    usleep(static_cast<useconds_t>(*wait / std::chrono::microseconds(1)));
  }
  line.Clear();
  if (flags.output == "json") {
    const absl::StatusOr<std::string> json = ManifestJson(ComposeManifest(*spec, *result));
    if (!json.ok()) return Refuse(json.status());
    std::cout << *json;
  } else {
    std::cout << RenderTable(*spec, *result);
  }
  if (result->succeeded) return 0;
  std::cerr << (result->cancelled ? "Cancelled: " : "Unavailable: ") << result->message << "\n";
  return 1;
}

}  // namespace strobe
