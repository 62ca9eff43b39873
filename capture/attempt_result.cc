#include "capture/attempt_result.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "capture/roles.h"
#include "common/base/duration.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/base/version.h"
#include "common/text/safe_text.h"

namespace strobe::capture {
namespace {

constexpr std::size_t kMaxRequestBytes = 512;
constexpr std::size_t kMaxManifestMessageBytes = 4096;
constexpr std::size_t kShortMessageBytes = 256;

bool IsEmptyKind(Outcome outcome) {
  return outcome == Outcome::kNoHostEvents || outcome == Outcome::kNoDeviceActivity ||
         outcome == Outcome::kDeviceTraceMissing;
}

// The steps that all workers with a trace in the logdir recorded.
std::optional<CommonSteps> StepsOnAll(const std::vector<WorkerResult>& workers) {
  std::vector<StepsOfWorker> recorded;
  for (const WorkerResult& worker : workers) {
    if (worker.report.url().empty()) continue;
    if (!worker.report.has_steps()) return std::nullopt;
    recorded.push_back({worker.report.steps(), worker.offset, worker.error});
  }
  return FindCommonSteps(recorded);
}

std::string WithError(const Skew& difference) {
  return StrCat(FormatDuration(difference.achieved),
                difference.error ? StrCat(" +-", FormatDuration(*difference.error))
                                 : std::string(", clocks not measured"));
}

// Says of which recorded worker the clock was not measured afterwards.
std::string UnmeasuredAfter(const std::vector<WorkerResult>& workers) {
  const auto found = std::find_if(workers.begin(), workers.end(), [](const WorkerResult& worker) {
    return worker.not_measured_after && !worker.report.url().empty();
  });
  return found == workers.end() ? ""
                                : StrCat("; the clock of ", found->target.name,
                                         " was not measured after the recording");
}

void JudgeStepsOnAll(AttemptResult& result) {
  result.synchronized = true;
  result.sync_reason = "AllCoverSteps";
  result.sync_message = StrCat("every recording has ", Describe(*result.steps));
  if (result.steps->spread && result.workers.size() > 1)
    result.sync_message +=
        StrCat("; the workers began it within ", WithError(*result.steps->spread),
               ", which is the job's own pace", UnmeasuredAfter(result.workers));
}

// The starts of the workers with this role, or of all if it is empty.
std::vector<CorrectedStart> StartsOf(const std::vector<WorkerResult>& workers,
                                     const std::string& role) {
  std::vector<CorrectedStart> starts;
  for (const WorkerResult& worker : workers) {
    if (worker.report.started_ns() == 0 || (!role.empty() && worker.target.role != role)) continue;
    starts.push_back({FromUnixNanos(worker.report.started_ns()), worker.offset, worker.error});
  }
  return starts;
}

void JudgeSynchronization(const Spec& spec, AttemptResult& result) {
  if (spec.preflight_only) {
    result.sync_reason = "PreflightOnly";
    result.sync_message = "nothing was recorded, as requested by preflightOnly";
    return;
  }
  const std::vector<CorrectedStart> starts = StartsOf(result.workers, "");
  const WorkerResult* gap = nullptr;
  for (const WorkerResult& worker : result.workers) {
    const bool kept = worker.report.covers_window() && !worker.report.url().empty();
    if (!kept && gap == nullptr) gap = &worker;
  }
  const bool by_steps = result.plan && result.plan->steps;
  if (!by_steps) result.skew = ComputeSkew(starts);
  if (RolesDiffer(result.workers))
    result.steps.reset();  // Equal numbers of different loops mean nothing.
  else
    result.steps = StepsOnAll(result.workers);
  result.synchronized = false;
  if (gap != nullptr) {
    result.sync_reason = by_steps ? "StepsNotCovered" : "WindowNotCovered";
    result.sync_message =
        StrCat(gap->target.name, ": ",
               gap->report.started_ns() == 0              ? "no recording"
               : by_steps && !gap->report.covers_window() ? "its recording lacks some of the steps"
               : !gap->report.covers_window() ? "its recording does not cover the window"
                                              : "its trace is not in the logdir");
    return;
  }
  if (by_steps && result.steps) return JudgeStepsOnAll(result);
  if (!result.skew) {
    result.sync_reason = "NothingRecorded";
    result.sync_message = "no worker recorded anything";
    return;
  }
  const std::string skew =
      StrCat("skew ", WithError(*result.skew), UnmeasuredAfter(result.workers));
  if (spec.max_skew &&
      (!result.skew->error || result.skew->achieved + *result.skew->error > *spec.max_skew)) {
    result.sync_reason = "SkewTooLarge";
    result.sync_message = StrCat(skew, ", but maxSkew is ", FormatDuration(*spec.max_skew));
    return;
  }
  result.synchronized = true;
  result.sync_reason = "AllCoverWindow";
  result.sync_message = starts.size() == 1 ? "the only recording covers the window"
                                           : StrCat("every recording covers the window; ", skew);
  if (!spec.steps) return;
  result.sync_message +=
      StrCat("; it is a window of time, because ",
             result.plan && !result.plan->no_steps.empty() ? result.plan->no_steps
                                                           : std::string("no steps were planned"),
             result.steps ? StrCat("; complete on all workers: ", Describe(*result.steps)) : "");
}

// How far the worker's trace reaches back. Sidecars older than look-back do not tell.
std::optional<Nanos> ReachedBack(const WorkerResult& worker) {
  if (!worker.report.has_reached_back_ns()) return std::nullopt;
  return Nanos{worker.report.reached_back_ns()};
}

void JudgeLookBack(const Spec& spec, AttemptResult& result) {
  result.reached_back.reset();
  if (spec.look_back == Nanos{0}) return;
  const WorkerResult* shortest = nullptr;
  for (const WorkerResult& worker : result.workers) {
    if (worker.report.url().empty()) continue;
    const Nanos reached = ReachedBack(worker).value_or(Nanos{0});
    if (shortest != nullptr && reached >= *result.reached_back) continue;
    shortest = &worker;
    result.reached_back = reached;
  }
  if (shortest == nullptr) return;
  const std::string& name = shortest->target.name;
  const std::string asked = FormatDuration(spec.look_back);
  result.sync_message +=
      !ReachedBack(*shortest)
          ? StrCat("; ", name, " does not reach back: its sidecar is from an earlier release")
      : *result.reached_back == Nanos{0}
          ? StrCat("; ", name,
                   " does not reach back: nothing was recorded before the start, which the "
                   "annotation strobe.dev/flight-recorder switches on")
      : *result.reached_back >= spec.look_back
          ? StrCat("; all traces reach back ", asked)
          : StrCat("; ", name, " reaches back ", FormatDuration(*result.reached_back), " of ",
                   asked);
}

absl::StatusOr<std::string> Print(const v1::Manifest& manifest, bool spaces) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = spaces;
  options.always_print_primitive_fields = true;
  std::string json;
  const auto printed = google::protobuf::util::MessageToJsonString(manifest, &json, options);
  if (!printed.ok()) return absl::InvalidArgumentError(std::string(printed.message()));
  // The library passes invalid UTF-8 through, and readers of the manifest would refuse it.
  if (!IsUtf8(json)) return absl::InvalidArgumentError("a text in the manifest is not valid UTF-8");
  return json;
}

void LeaveOutProcesses(v1::ManifestWorker& worker) {
  worker.set_processes_left_out(worker.processes_left_out() +
                                static_cast<std::uint32_t>(worker.processes_size()));
  worker.clear_processes();
}
void LeaveOutPlanesAndNotes(v1::ManifestWorker& worker) {
  worker.clear_planes();
  worker.clear_notes();
}
void ShortenMessage(v1::ManifestWorker& worker) {
  worker.set_message(CutUtf8(worker.message(), kShortMessageBytes));
}

// What is left out of a manifest that is too large: tried in this order until it fits.
struct Reduction {
  bool ok_only;
  void (*leave_out)(v1::ManifestWorker&);
};
constexpr Reduction kReductions[] = {{.ok_only = true, .leave_out = LeaveOutProcesses},
                                     {.ok_only = true, .leave_out = LeaveOutPlanesAndNotes},
                                     {.ok_only = false, .leave_out = LeaveOutProcesses},
                                     {.ok_only = false, .leave_out = LeaveOutPlanesAndNotes},
                                     {.ok_only = false, .leave_out = ShortenMessage}};

// The number of pods, and how many of them have only workers that count; of all, and by role.
struct PodCount {
  std::size_t pods = 0, ok = 0;
  RoleCounts roles{};
};
PodCount CountPods(const Spec& spec, const std::vector<WorkerResult>& workers) {
  struct Pod {
    std::string role{};
    bool ok = true;
  };
  std::map<std::string, Pod> pods;
  for (const WorkerResult& worker : workers) {
    // See SplitByProcess.
    const std::string& name = worker.target.name;
    Pod& pod = pods[worker.local_rank < 0 ? name : name.substr(0, name.rfind('/'))];
    pod.role = worker.target.role;
    pod.ok = pod.ok && Counts(worker, spec);
  }
  PodCount count{.pods = pods.size()};
  for (const auto& [name, pod] : pods) {
    RoleCount& role = count.roles[pod.role];
    ++role.there;
    role.counted += pod.ok ? 1 : 0;
    count.ok += pod.ok ? 1 : 0;
  }
  return count;
}

void FillRoles(const Spec& spec, const PodCount& pods, AttemptResult& result) {
  result.roles.clear();
  const bool by_steps = result.plan && result.plan->steps;
  for (const RoleWanted& role : spec.roles) {
    const auto found = pods.roles.find(role.role);
    const RoleCount count = found == pods.roles.end() ? RoleCount{} : found->second;
    RoleResult& filled = result.roles.emplace_back();
    filled.role = role.role;
    filled.pods = count.there;
    filled.ok = count.counted;
    filled.wanted = WantedOf(role, count.there);
    if (!by_steps) filled.skew = ComputeSkew(StartsOf(result.workers, role.role));
  }
}

// "; prefill: 1 of 1, decode: 2 of 2 pods Ok"; empty for a capture of one target.
std::string RoleWords(const AttemptResult& result) {
  std::vector<std::string> words;
  for (const RoleResult& role : result.roles)
    words.push_back(StrCat(role.role, ": ", role.ok, " of ", role.pods));
  return words.empty() ? "" : StrCat("; ", Join(words, ", "), " pods Ok");
}

// Whether its sidecar refused the logdir to begin with, or found out while it wrote the trace.
bool HasUnusableLogdir(const WorkerResult& worker) {
  return worker.report.logdir_unusable() ||
         (worker.outcome == Outcome::kUploadFailed && !worker.armed);
}

// What the workers tell of a job that has more processes than there are workers, although the
// target is whole: the others may be in pods of another object, or may not have announced
// themselves.
std::string LargerJob(const AttemptResult& result) {
  if (!result.roles.empty() || result.expected_workers != result.workers.size()) return "";
  std::uint32_t size = 0;
  for (const WorkerResult& worker : result.workers) {
    const std::uint32_t told = worker.report.rank().world_size();
    if (told == 0 || (size != 0 && told != size)) return "";
    size = told;
  }
  return size > result.workers.size()
             ? StrCat("; the processes report a job of ", size, " (WORLD_SIZE)")
             : std::string();
}

}  // namespace

std::optional<Skew> ComputeSkew(std::span<const CorrectedStart> starts) {
  if (starts.empty()) return std::nullopt;
  WallTime first = WallTime::max(), last = WallTime::min();
  // The error of a difference is the sum of both errors. The sum of the two largest errors bounds
  // it for every pair of workers.
  Nanos largest{0}, second{0};
  bool measured = true;
  for (const CorrectedStart& start : starts) {
    const WallTime corrected = start.started - start.offset;
    first = std::min(first, corrected);
    last = std::max(last, corrected);
    if (!start.error) {
      measured = false;
      continue;
    }
    second = std::max(second, std::min(largest, *start.error));
    largest = std::max(largest, *start.error);
  }
  Skew skew{.achieved = last - first};
  if (starts.size() == 1)
    skew.error = Nanos{0};
  else if (measured)
    skew.error = largest + second;
  return skew;
}

std::optional<Nanos> LatenessOf(const WorkerResult& worker) {
  if (worker.report.started_ns() == 0 || worker.report.plan().steps() > 0) return std::nullopt;
  return Nanos{worker.report.started_ns() -
               (worker.report.plan().instant_ns() - worker.report.plan().guard_ns())};
}

bool Counts(const WorkerResult& worker, const Spec& spec) {
  if (spec.preflight_only || spec.collects_evidence) return worker.outcome == Outcome::kOk;
  if (worker.report.url().empty()) return false;
  if (worker.outcome == Outcome::kOk || worker.outcome == Outcome::kEventsDropped) return true;
  if (worker.outcome != Outcome::kLateStart || spec.on_late_start != OnLateStart::kKeep)
    return false;
  // A trace without a complete step is of no use to a user who asked for steps.
  return worker.report.plan().steps() == 0 || worker.report.has_steps();
}

std::vector<const WorkerResult*> WorstFirst(const AttemptResult& result) {
  std::vector<const WorkerResult*> worst;
  for (const WorkerResult& worker : result.workers) {
    if (worker.outcome != Outcome::kOk) worst.push_back(&worker);
  }
  std::sort(worst.begin(), worst.end(), [](const WorkerResult* a, const WorkerResult* b) {
    const int left = Describe(a->outcome).badness, right = Describe(b->outcome).badness;
    return left != right ? left > right : a->target.name < b->target.name;
  });
  return worst;
}

void Conclude(const Spec& spec, AttemptResult& result) {
  result.ok = result.armed = result.empty = result.bytes = 0;
  for (const WorkerResult& worker : result.workers) {
    result.ok += Counts(worker, spec) ? 1 : 0;
    result.armed += worker.armed ? 1 : 0;
    result.empty += IsEmptyKind(worker.outcome) ? 1 : 0;
    if (!worker.report.url().empty()) result.bytes += worker.report.bytes();
  }
  JudgeSynchronization(spec, result);
  JudgeLookBack(spec, result);
  const PodCount pods = CountPods(spec, result.workers);
  FillRoles(spec, pods, result);
  if (!result.reason.empty()) return;  // It ended before there was anything to judge.
  const bool split = pods.pods < result.workers.size();
  const std::size_t wanted = spec.min_workers == 0 ? pods.pods : spec.min_workers;
  const std::vector<const WorkerResult*> worst = WorstFirst(result);
  const auto cause = [&] {
    return worst.empty() ? std::string()
                         : StrCat("; ", worst.front()->target.name, ": ",
                                  Name(worst.front()->outcome), ": ", worst.front()->message);
  };
  const std::string count =
      StrCat(result.ok, " of ", result.workers.size(), " workers Ok",
             split ? StrCat(", ", pods.ok, " of ", pods.pods, " pods complete") : std::string());
  const auto is_few = [](const RoleResult& role) { return role.ok < role.wanted; };
  // The worker at fault belongs to the role that is named, if too few of that one ended well: those
  // of other roles may have been called off because of it.
  auto few = std::find_if(result.roles.begin(), result.roles.end(), [&](const RoleResult& role) {
    return is_few(role) && !worst.empty() && role.role == worst.front()->target.role;
  });
  if (few == result.roles.end())
    few = std::find_if(result.roles.begin(), result.roles.end(), is_few);
  if (pods.ok < wanted || few != result.roles.end()) {
    // Workers that were called off are not the cause: they were called off because too few others
    // could record.
    const bool cause_known = !worst.empty() && worst.front()->outcome != Outcome::kCancelled;
    result.reason = cause_known ? std::string(Name(worst.front()->outcome)) : "TooFewWorkers";
    result.message = few != result.roles.end()
                         ? StrCat(few->role, ": ", few->ok, " of ", few->pods,
                                  " pods Ok, at least ", few->wanted, " wanted", cause())
                         : StrCat(count, ", at least ", wanted, " wanted", cause());
    return;
  }
  if (spec.on_late_start == OnLateStart::kDiscard && result.ok == result.workers.size() &&
      !result.synchronized) {
    result.reason = "NotSynchronized";
    result.message = result.sync_message;
    return;
  }
  result.succeeded = true;
  result.reason = worst.empty() ? "AllWorkersOk" : "EnoughWorkersOk";
  result.message = StrCat(count, RoleWords(result), LargerJob(result), cause());
}

v1::Manifest ComposeManifest(const Spec& spec, const AttemptResult& result) {
  v1::Manifest manifest;
  manifest.set_format(1);
  manifest.set_strobe_version(kVersion);
  manifest.set_capture_id(result.capture_id);
  manifest.set_request(CutUtf8(spec.request, kMaxRequestBytes));
  manifest.set_job(CutUtf8(spec.job, kMaxRequestBytes));
  manifest.set_requester(CutUtf8(spec.requester, kMaxRequestBytes));
  manifest.set_run(result.run);
  manifest.set_logdir(spec.logdir);
  manifest.set_attempt(static_cast<std::uint32_t>(result.attempt));
  if (result.plan) {
    manifest.set_instant_ns(ToUnixNanos(result.plan->instant));
    manifest.set_guard_ns(result.plan->guard.count());
  }
  manifest.set_duration_ns(result.duration.value_or(spec.duration).count());
  manifest.set_look_back_ns(spec.look_back.count());
  manifest.set_result(result.succeeded ? "Succeeded" : "Failed");
  manifest.set_message(CutUtf8(result.message, kMaxManifestMessageBytes));
  manifest.set_synchronized(result.synchronized);
  if (result.skew) {
    manifest.set_skew_known(result.skew->error.has_value());
    manifest.set_skew_ns(result.skew->achieved.count());
    manifest.set_skew_error_ns(result.skew->error.value_or(Nanos{-1}).count());
  }
  if (result.steps) {
    v1::CommonSteps& steps = *manifest.mutable_steps();
    steps.set_loop(result.steps->loop);
    steps.set_first(result.steps->first);
    steps.set_last(result.steps->last);
    const auto& spread = result.steps->spread;
    steps.set_spread_ns(spread ? spread->achieved.count() : -1);
    steps.set_spread_error_ns(spread ? spread->error.value_or(Nanos{-1}).count() : -1);
  }
  for (const RoleResult& role : result.roles) {
    v1::ManifestRole& entry = *manifest.add_roles();
    entry.set_role(role.role);
    entry.set_pods(static_cast<std::uint32_t>(role.pods));
    entry.set_ok(static_cast<std::uint32_t>(role.ok));
    entry.set_skew_ns(role.skew ? role.skew->achieved.count() : -1);
    entry.set_skew_error_ns(role.skew ? role.skew->error.value_or(Nanos{-1}).count() : -1);
  }
  std::vector<const WorkerResult*> workers;
  for (const WorkerResult& worker : result.workers) workers.push_back(&worker);
  std::stable_sort(workers.begin(), workers.end(), [](const auto* a, const auto* b) {
    return std::tie(a->target.role, a->group, a->target.rank) <
           std::tie(b->target.role, b->group, b->target.rank);
  });
  for (const WorkerResult* worker : workers) {
    v1::ManifestWorker& entry = *manifest.add_workers();
    entry.set_name(worker->target.file);
    entry.set_pod(worker->target.pod);
    entry.set_container(worker->target.container);
    entry.set_rank(worker->target.rank);
    entry.set_local_rank(worker->local_rank);
    entry.set_role(worker->target.role);
    entry.set_role_from(worker->target.role_from);
    entry.set_group(CutUtf8(worker->group, kMaxRequestBytes));
    entry.set_outcome(std::string(Name(worker->outcome)));
    entry.set_message(CutUtf8(worker->message, kMaxManifestMessageBytes));
    entry.set_clock_offset_ns(worker->offset.count());
    entry.set_clock_error_ns(worker->error.value_or(Nanos{-1}).count());
    entry.set_started_ns(worker->report.started_ns());
    entry.set_stopped_ns(worker->report.stopped_ns());
    entry.set_lateness_ns(LatenessOf(*worker).value_or(Nanos{0}).count());
    entry.set_covers_window(worker->report.covers_window());
    entry.set_bytes(worker->report.bytes());
    entry.set_sha256(worker->report.sha256());
    entry.set_events(worker->report.events());
    *entry.mutable_planes() = worker->report.planes();
    *entry.mutable_notes() = worker->report.notes();
    if (worker->report.has_job()) *entry.mutable_job() = worker->report.job();
    if (worker->report.has_steps()) *entry.mutable_steps() = worker->report.steps();
    entry.set_reached_back_ns(ReachedBack(*worker).value_or(Nanos{-1}).count());
    *entry.mutable_processes() = worker->report.processes();
    entry.set_processes_left_out(worker->report.processes_left_out());
  }
  return manifest;
}

absl::StatusOr<std::string> ManifestJson(v1::Manifest manifest) {
  ASSIGN_OR_RETURN(std::string json, Print(manifest, /*spaces=*/true));
  for (const auto& [ok_only, leave_out] : kReductions) {
    if (json.size() <= kMaxManifestBytes) return json;
    for (v1::ManifestWorker& worker : *manifest.mutable_workers()) {
      if (!ok_only || worker.outcome() == Name(Outcome::kOk)) leave_out(worker);
    }
    ASSIGN_OR_RETURN(json, Print(manifest, /*spaces=*/false));
  }
  if (json.size() <= kMaxManifestBytes) return json;
  return absl::InvalidArgumentError(StrCat("the manifest has ", json.size(), " bytes; at most ",
                                           kMaxManifestBytes, " are allowed"));
}

std::optional<CommonSteps> FindCommonSteps(std::span<const StepsOfWorker> workers) {
  if (workers.empty()) return std::nullopt;
  const v1::RecordedSteps& one = workers.front().steps;
  CommonSteps common{.loop = one.loop(), .first = one.first(), .last = one.last()};
  for (const StepsOfWorker& worker : workers) {
    if (worker.steps.loop() != common.loop) return std::nullopt;
    common.first = std::max(common.first, worker.steps.first());
    common.last = std::min(common.last, worker.steps.last());
  }
  if (common.first > common.last) return std::nullopt;
  std::vector<CorrectedStart> begins;
  for (const auto& [steps, offset, error] : workers) {
    if (steps.first() == common.first)
      begins.push_back({FromUnixNanos(steps.began_ns()), offset, error});
  }
  if (begins.size() == workers.size()) common.spread = ComputeSkew(begins);
  return common;
}

std::string Describe(const CommonSteps& steps) {
  return steps.first == steps.last
             ? StrCat("step ", steps.first, " of ", steps.loop)
             : StrCat("steps ", steps.first, " to ", steps.last, " of ", steps.loop);
}

std::optional<Nanos> RetryAfter(const Spec& spec, const AttemptResult& result) {
  if (result.succeeded || result.cancelled || result.attempt >= spec.attempts) return std::nullopt;
  // The request asks how things are now, which a later attempt would not answer.
  if (spec.preflight_only) return std::nullopt;
  // A step that has passed does not come again.
  if (result.reason == kStepOutOfReach) return std::nullopt;
  // Another attempt can only succeed if enough workers may end well in it.
  std::size_t curable = 0;
  RoleCounts roles;
  for (const WorkerResult& worker : result.workers) {
    // The user did not cancel: the operator called this worker off because others were missing.
    const bool called_off = worker.outcome == Outcome::kCancelled;
    const bool retryable = Describe(worker.outcome).retryable && !HasUnusableLogdir(worker);
    const std::size_t counted = Counts(worker, spec) || called_off || retryable ? 1 : 0;
    curable += counted;
    RoleCount& role = roles[worker.target.role];
    ++role.there;
    role.counted += counted;
  }
  const std::size_t wanted = spec.min_workers == 0 ? result.workers.size() : spec.min_workers;
  if (curable < wanted || TooFewOf(spec, roles) != nullptr) return std::nullopt;
  return std::min<Nanos>(std::chrono::seconds(1) * (1 << std::min(result.attempt - 1, 5)),
                         kMaxRetryWait);
}

}  // namespace strobe::capture
