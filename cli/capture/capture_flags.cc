#include "cli/capture/capture_flags.h"

#include <unistd.h>

#include <chrono>
#include <initializer_list>
#include <limits>
#include <map>
#include <span>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "capture/spec.h"
#include "cli/base/common_flags.h"
#include "collector/store/logdir.h"
#include "common/base/duration.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/quantity.h"
#include "common/text/safe_text.h"

namespace strobe::cli {
namespace {

// An empty text leaves `target` as it is.
template <typename T>
absl::Status ParseOptional(std::string_view flag, const std::string& text, T& target) {
  if (text.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(target, DurationOf(flag, text));
  return absl::OkStatus();
}

absl::Status ParseTimes(const CaptureFlags& flags, capture::Spec& spec) {
  const absl::StatusOr<Nanos> duration = ParseDuration(flags.duration);
  if (!duration.ok() || *duration < std::chrono::milliseconds(1) ||
      *duration > std::chrono::minutes(10)) {
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
  RETURN_IF_ERROR(ParseOptional("--max-pause", flags.max_pause, spec.max_pause));
  if (spec.max_pause && (*spec.max_pause < kLeastPause || *spec.max_pause > kLongestPause))
    return absl::InvalidArgumentError("--max-pause must be from 1ms to 10m");
  std::optional<Nanos> look_back;
  RETURN_IF_ERROR(ParseOptional("--look-back", flags.look_back, look_back));
  spec.look_back = look_back.value_or(Nanos{0});
  if (spec.look_back < Nanos{0} || spec.look_back > kMaxLookBack)
    return absl::InvalidArgumentError("--look-back must be at most 10m");
  if (spec.look_back > Nanos{0} && flags.tracers.host == 0)
    return absl::InvalidArgumentError(
        "--look-back reads annotations: --host-tracer-level must be Critical, Info or Verbose");
  return absl::OkStatus();
}

absl::Status ParseSteps(const CaptureFlags& flags, capture::Spec& spec) {
  if (flags.steps == 0) {
    if (flags.at_step.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError("--at-step needs --steps, the number of steps to record");
  }
  if (spec.delay || spec.max_skew)
    return absl::InvalidArgumentError("--steps cannot be combined with --delay or --max-skew");
  if (flags.tracers.host == 0)
    return absl::InvalidArgumentError(
        "--steps needs --host-tracer-level Critical, Info or Verbose");
  capture::StepsWanted wanted{.count = flags.steps};
  std::string_view number = flags.at_step;
  if (number.starts_with('*')) {
    wanted.from = capture::StepsWanted::From::kMultipleOf;
    number.remove_prefix(1);
  } else if (!number.empty() && number != "next") {
    wanted.from = capture::StepsWanted::From::kNumber;
  }
  constexpr std::int64_t kLast = std::int64_t{1} << 53;
  const std::int64_t least = wanted.from == capture::StepsWanted::From::kMultipleOf ? 1 : 0;
  if (wanted.from != capture::StepsWanted::From::kNext &&
      (!absl::SimpleAtoi(absl::string_view(number.data(), number.size()), &wanted.number) ||
       wanted.number < least || wanted.number > kLast)) {
    return absl::InvalidArgumentError(
        StrCat("--at-step \"", flags.at_step,
               "\" must be next, a step number, or * and a number for the next multiple"));
  }
  spec.steps = wanted;
  return absl::OkStatus();
}

v1::Tracers TracersOf(const TracerFlags& flags) {
  v1::Tracers tracers;
  tracers.set_host(flags.host);
  tracers.set_host_filter(flags.host_filter);
  tracers.set_device(flags.device);
  tracers.set_python(flags.python);
  tracers.set_shapes(flags.shapes);
  tracers.set_stacks(flags.stacks);
  tracers.set_memory(flags.memory);
  tracers.set_flops(flags.flops);
  tracers.set_modules(flags.modules);
  tracers.set_keep_original(flags.keep_original);
  tracers.set_detach(flags.detach);
  return tracers;
}

// What servers that save for themselves cannot be asked for is refused: dropped silently, it would
// leave the user with another recording than the one that was asked for.
absl::Status CheckServerSaves(const CaptureFlags& flags, const capture::Spec& spec) {
  struct Flag {
    std::string_view name;
    bool is_set;
  };
  for (const Flag& flag : std::initializer_list<Flag>{
           {"--steps", spec.steps.has_value()},
           {"--look-back", spec.look_back > Nanos{0}},
           {"--ready-timeout", spec.ready_timeout > Nanos{0}},
           {"--min-running-requests", spec.min_running_requests > 0},
           {"--guard", spec.guard.has_value()},
           {"--max-skew", spec.max_skew.has_value()},
           {"--max-pause", spec.max_pause.has_value()},
           {"--on-late-start Discard", spec.on_late_start == capture::OnLateStart::kDiscard},
           {"--ranks", !flags.ranks.empty()},
           {"--local-ranks", !flags.local_ranks.empty()},
           {"--max-bytes-per-worker", spec.max_bytes > 0},
           {"--abort-slowdown", spec.abort_slowdown_percent > 0},
       }) {
    if (flag.is_set)
      return absl::InvalidArgumentError(
          StrCat(flag.name, " cannot be combined with ",
                 flags.server_saves ? "--server-saves" : "--worker-list",
                 ": servers that save their traces themselves do not know of it"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<capture::Spec> ParseCaptureFlags(const CaptureFlags& flags, std::size_t workers,
                                                WallTime now) {
  capture::Spec spec;
  spec.request = StrCat("strobe capture on ", workers, " workers");
  spec.uid = StrCat("cli-", getpid(), "-", ToUnixNanos(now));
  spec.logdir = storage::AbsoluteLocation(flags.logdir);
  RETURN_IF_ERROR(storage::Logdir::Parse(spec.logdir).status());
  spec.run = flags.run.empty()
                 ? storage::DefaultRunName(now, "capture", StrCat(ToUnixNanos(now) % 100'000'000))
                 : flags.run;
  if (!IsSafeName(spec.run, 200)) {
    return absl::InvalidArgumentError(
        "--run must be 1 to 200 characters of [A-Za-z0-9._-], not starting with a dot");
  }
  RETURN_IF_ERROR(ParseTimes(flags, spec));
  RETURN_IF_ERROR(ParseSteps(flags, spec));
  spec.on_late_start = flags.on_late_start == "Discard" ? capture::OnLateStart::kDiscard
                                                        : capture::OnLateStart::kKeep;
  const absl::StatusOr<std::size_t> least = capture::ResolveMinWorkers(flags.min_workers, workers);
  if (!least.ok())
    return absl::InvalidArgumentError(StrCat("--min-workers: ", MessageOf(least.status())));
  spec.min_workers = *least;
  spec.attempts = flags.attempts;
  spec.min_running_requests = flags.min_running_requests;
  spec.tracers = TracersOf(flags.tracers);
  spec.max_bytes = flags.max_bytes;
  spec.abort_memory_percent = flags.abort_memory;
  spec.abort_slowdown_percent = flags.abort_slowdown;
  if (SavedByServers(flags)) RETURN_IF_ERROR(CheckServerSaves(flags, spec));
  return spec;
}

namespace {

// Replaces a level's name by its number, and leaves its number as it is.
CLI::Validator LevelText(std::span<const std::string_view> names) {
  return CLI::Validator(
      [names](std::string& text) -> std::string {
        for (std::size_t level = 0; level < names.size(); ++level) {
          if (text != StrCat(level) && !absl::EqualsIgnoreCase(text, std::string(names[level])))
            continue;
          text = StrCat(level);
          return "";
        }
        return StrCat("must be one of ", capture::LevelNames(names), ", or 0 to ",
                      names.size() - 1);
      },
      "", "level");
}

CLI::Validator BytesText() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        const std::optional<std::uint64_t> bytes = ParseBytes(text);
        if (!bytes) return "must be a positive quantity of bytes, such as 512Mi";
        text = StrCat(*bytes);
        return "";
      },
      "", "bytes");
}

// Replaces Never by 0, which is no limit on the wire.
CLI::Validator PercentText() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        int percent = 0;
        if (absl::EqualsIgnoreCase(text, "Never"))
          text = "0";
        else if (!absl::SimpleAtoi(text, &percent) || percent < 1 || percent > 100)
          return "must be from 1 to 100, or Never for no limit";
        return "";
      },
      "", "percent");
}

void AddTimeFlags(CLI::App& command, CaptureFlags& flags) {
  command.add_option("--duration", flags.duration, "how long to record, 1ms to 10m")
      ->capture_default_str()
      ->type_name("DURATION");
  command
      .add_option(
          "--steps", flags.steps,
          "record this many training steps, the same ones on all workers, instead of a time "
          "window; --duration applies if the workers report no steps")
      ->check(CLI::Range(1, 10000));
  command.option_defaults()->group("When it records");
  const auto add = [&](const char* name, std::string& value, const char* about) {
    return command.add_option(name, value, about)->type_name("DURATION");
  };
  command
      .add_option("--at-step", flags.at_step,
                  "with --steps, the first step: a number, *N for the next multiple of N, or next "
                  "[next]")
      ->type_name("STEP");
  add("--look-back", flags.look_back,
      "how far back before the start to record, at most 10m, on workers whose flight recorder is "
      "on [the sidecar's --flight-recorder]");
  add("--delay", flags.delay, "start this long from now, at most 1h [as soon as is safe]");
  add("--ready-timeout", flags.ready_timeout,
      "how long to wait for workers that are busy or not available yet, at most 1h")
      ->capture_default_str();
  command
      .add_option("--min-running-requests", flags.min_running_requests,
                  "wait, at most --ready-timeout, until each inference server has this many "
                  "requests")
      ->check(CLI::Range(1, 100'000));
  add("--collect-timeout", flags.collect_timeout,
      "how long collecting and uploading may take, at least 1s [3m, or twice the duration]");
  add("--guard", flags.guard,
      "extra time to record before and after the window, for workers that start late [from the "
      "measured lateness, at least 5ms]");
  add("--max-skew", flags.max_skew, "largest time between the starts of two workers [any]");
  add("--max-pause", flags.max_pause,
      "leave out programs that would stand still for longer when their recording ends [5s, or any "
      "with the sidecar's --allow-stalls]");
}

void AddRuleFlags(CLI::App& command, CaptureFlags& flags) {
  command.option_defaults()->group("Which workers, and when the capture succeeds");
  command
      .add_option("--on-late-start", flags.on_late_start,
                  "what to do with a trace that does not cover the whole window")
      ->capture_default_str()
      ->check(CLI::IsMember({"Keep", "Discard"}));
  command
      .add_option("--min-workers", flags.min_workers, "how many workers must have a usable trace")
      ->capture_default_str()
      ->type_name("NUMBER|PERCENT");
  command.add_option("--attempts", flags.attempts, "maximum number of attempts")
      ->capture_default_str()
      ->check(CLI::Range(1, 10));
  command.add_option("--ranks", flags.ranks, "record only these ranks of the job, such as 0,7")
      ->delimiter(',')
      ->check(CLI::Range(0, 999'999'999));
  command
      .add_option("--local-ranks", flags.local_ranks,
                  "record only these local ranks of each worker, such as 0")
      ->delimiter(',')
      ->check(CLI::Range(0, 999'999'999));
  command.option_defaults()->group("What it may cost the job");
  command
      .add_option("--max-bytes-per-worker", flags.max_bytes,
                  "refuse traces that are larger than this, such as 512Mi [no limit]")
      ->type_name("QUANTITY")
      ->transform(BytesText());
  command
      .add_option("--abort-memory", flags.abort_memory,
                  "stop a worker's capture when its trainer uses this percentage of a memory "
                  "limit, or Never; needs the agent or Strobe's Python package in the trainer")
      ->capture_default_str()
      ->type_name("PERCENT")
      ->transform(PercentText());
  command
      .add_option("--abort-slowdown", flags.abort_slowdown,
                  "stop a worker's capture when its steps take this percentage longer than before; "
                  "needs the agent or the package too [never]")
      ->type_name("PERCENT")
      ->check(CLI::Range(1, 10000));
}

void AddTracerFlags(CLI::App& command, TracerFlags& flags) {
  command.option_defaults()->group("What it records");
  command
      .add_option("--host-tracer-level", flags.host,
                  "on the host: Disabled, Critical (annotations), Info (also costly operations) or "
                  "Verbose (everything); or 0 to 3")
      ->default_str(std::string(capture::kHostLevels[capture::kDefaultHostLevel]))
      ->type_name("LEVEL")
      ->transform(LevelText(capture::kHostLevels));
  command
      .add_option("--host-filter", flags.host_filter,
                  "bit mask: an annotation that has a mask is recorded if the two share a bit "
                  "[all]")
      ->check(CLI::Range(1u, std::numeric_limits<unsigned>::max()));
  command
      .add_option("--device-tracer-level", flags.device,
                  "of accelerators: Disabled or Enabled; or, of GPUs, only Kernels, Launches, "
                  "Graphs or All; or 0 to 5")
      ->default_str(std::string(kDeviceModes[capture::kDefaultDeviceLevel]))
      ->type_name("LEVEL")
      ->transform(LevelText(kDeviceModes));
  command.add_flag("--detach", flags.detach,
                   "detach CUPTI from the programs after recording GPUs, where that is safe");
  command
      .add_option("--python-tracer-level", flags.python,
                  "Python calls: Enabled or Disabled; or 1 or 0")
      ->default_str(std::string(capture::kSwitchLevels[0]))
      ->type_name("LEVEL")
      ->transform(LevelText(capture::kSwitchLevels));
  command.option_defaults()->group("What PyTorch records besides");
  command.add_flag("--shapes", flags.shapes, "shapes and types of operators' inputs");
  command.add_flag("--stacks", flags.stacks, "every Python function; slows the trainer down");
  command.add_flag("--memory", flags.memory, "memory allocations");
  command.add_flag("--flops", flags.flops,
                   "estimated floating-point operations of operators; includes --shapes");
  command.add_flag("--modules", flags.modules, "calls of modules; includes --stacks");
  command.add_flag("--keep-original", flags.keep_original,
                   "keep the profiler's own JSON file next to the trace");
}

void AddStockServerFlags(CLI::App& command, CaptureFlags& flags) {
  command.option_defaults()->group("Stock profiler servers");
  command.add_flag("--server-saves", flags.server_saves,
                   "each server writes its trace to the logdir itself; the skew is not measured");
  command.add_flag("--host-tracing-on-old-servers", flags.risks.host_tracing_on_old_servers,
                   "also record host annotations through servers from before 2026; this crashes "
                   "trainers with jaxlib 0.5.0 to 0.8.3 and without TensorFlow");
  command.add_flag("--gpu-tracing-by-servers", flags.risks.gpu_tracing_by_servers,
                   "also record NVIDIA GPUs through servers of this machine; the end of the "
                   "recording can take the GPU from the program");
  command
      .add_option("--worker-list", flags.worker_list,
                  "Cloud TPU: the slice's workers, which the master named by --workers profiles")
      ->type_name("ADDRESSES");
}

}  // namespace

void AddCaptureFlags(CLI::App& command, CaptureFlags& flags) {
  command
      .add_option("--workers", flags.workers,
                  "sidecars as host:port, profiler servers as grpc://host:port, separated by "
                  "commas; ROLE=host:port compares workers only within their role")
      ->type_name("ADDRESSES")
      ->required();
  command
      .add_option("--logdir", flags.logdir,
                  "where to store the run: a path or a URL that every sidecar can write to")
      ->type_name("URL")
      ->required();
  command.add_flag("--insecure-plaintext", flags.insecure_plaintext,
                   "connect without TLS; required, because this command has no certificates");
  AddTimeFlags(command, flags);
  AddRuleFlags(command, flags);
  AddTracerFlags(command, flags.tracers);
  AddStockServerFlags(command, flags);
  command.option_defaults()->group(kCommonFlags);
  command.add_option("--run", flags.run, "name of the run [<time>_capture_<digits>]")
      ->type_name("NAME");
  AddOutputFlag(command, flags.output, "; json is the run's manifest");
  command.add_option("--progress", flags.progress, "format of the progress on stderr")
      ->capture_default_str()
      ->check(CLI::IsMember({"text", "json"}));
  command.add_flag("--quiet", flags.quiet, "show no progress");
  AddStorageConfigFlag(command, flags.storage_config);
  command.footer(
      "Examples:\n"
      "  strobe capture --insecure-plaintext --workers 10.0.0.2:9470,10.0.0.3:9470 \\\n"
      "    --logdir /nfs/logs --duration 2s\n"
      "  strobe capture --insecure-plaintext --workers grpc://localhost:9012 --logdir /tmp/logs\n"
      "  strobe capture --insecure-plaintext --workers "
      "prefill=10.0.0.2:9470,decode=10.0.0.3:9470 \\\n"
      "    --logdir /nfs/logs --min-running-requests 1 --ready-timeout 2m\n"
      "Ctrl-C ends the recording early and keeps it. Pressed again, it cancels the capture; with "
      "--worker-list it does so at once.\n"
      "Exit code: 0 enough workers have a trace in the logdir, 1 they do not, 2 a flag is wrong.");
}

absl::Status SetRoles(const CaptureFlags& flags, const std::vector<capture::Target>& targets,
                      capture::Spec& spec) {
  std::map<std::string, std::size_t> workers;  // By role.
  for (const capture::Target& target : targets) {
    if (!target.role.empty()) ++workers[target.role];
  }
  if (workers.empty()) return absl::OkStatus();
  if (workers.size() > 1 && spec.steps)
    return absl::InvalidArgumentError("--steps: each role counts its own steps; use --duration");
  spec.min_workers = 0;
  for (const auto& [role, count] : workers) {
    ASSIGN_OR_RETURN(const std::size_t least, capture::ResolveMinWorkers(flags.min_workers, count));
    spec.roles.push_back({role, least});
    spec.min_workers += least;
  }
  return absl::OkStatus();
}

}  // namespace strobe::cli
