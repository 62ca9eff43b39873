#include "operator/request/request_status.h"

#include <algorithm>
#include <tuple>

#include "collector/store/logdir.h"
#include "common/base/duration.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"

namespace strobe::request {
namespace {

using enum kube::ConditionStatus;

constexpr std::size_t kMaxOutcomes = 16, kMaxPreflight = 32, kMaxVersionBytes = 64;
constexpr std::size_t kMaxOutcomeMessageBytes = 240;
constexpr std::size_t kMaxConditionBytes = 1024, kMaxHeadlineBytes = 512;
// Each list ends before its entries have more text, so that a status has less than 10 kB however
// many workers there are and however long their names and messages are.
constexpr std::size_t kMaxOutcomesBytes = 3600, kMaxPreflightBytes = 2400, kMaxProgressBytes = 2000;
// What a verdict adds to that, so that a status with one has less than 20 kB.
constexpr std::size_t kMaxVerdictBytes = 2048, kMaxStacksBytes = 6000, kMaxLineBytes = 900;
constexpr std::size_t kMaxVerdictLines = 16, kMaxStackLines = 200, kMaxCulprits = 8;

// The room that is left for one list's entries.
class ByteBudget {
 public:
  explicit ByteBudget(std::size_t bytes) : bytes_(bytes) {}

  // Takes room for an entry with so many bytes of text. False if there is not enough.
  bool Take(std::size_t text) {
    constexpr std::size_t kNamesOfFields = 50;
    taken_ += text + kNamesOfFields;
    return taken_ <= bytes_;
  }

 private:
  const std::size_t bytes_;
  std::size_t taken_ = 0;
};

void Set(const objects::ProfileRequest& request, std::string type, kube::ConditionStatus value,
         std::string reason, std::string message, WallTime now, objects::RequestStatus& status) {
  kube::Condition condition{.type = std::move(type),
                            .status = value,
                            .reason = std::move(reason),
                            .message = CutUtf8(message, kMaxConditionBytes),
                            .observed_generation = request.generation};
  kube::SetSince(request.status.conditions, now, condition);
  const auto present =
      std::find_if(status.conditions.begin(), status.conditions.end(),
                   [&](const kube::Condition& c) { return c.type == condition.type; });
  if (present == status.conditions.end())
    status.conditions.push_back(std::move(condition));
  else
    *present = std::move(condition);
}

objects::RequestStatus Begin(const objects::ProfileRequest& request) {
  objects::RequestStatus status = request.status;
  status.observed_generation = request.generation;
  status.retry_time.reset();
  status.queue_position = 0;
  status.progress.clear();
  return status;
}

std::string RunUrl(const objects::ProfileRequest& request, const std::string& run) {
  const absl::StatusOr<storage::Logdir> logdir = storage::Logdir::Parse(request.capture.logdir);
  return logdir.ok() ? logdir->RunUrl(run) : run;
}

void CountCause(const std::string& cause, std::vector<objects::StatusCause>& causes) {
  const auto known =
      std::find_if(causes.begin(), causes.end(),
                   [&](const objects::StatusCause& each) { return each.cause == cause; });
  if (known == causes.end())
    causes.push_back({cause, 1});
  else
    ++known->workers;
}

// The list's key is the name, and the API server refuses a status with a key that occurs twice. A
// sidecar that is not ours may tell two processes with the same rank.
bool HasOutcomeOf(const std::string& name, const objects::RequestStatus& status) {
  return std::any_of(status.outcomes.begin(), status.outcomes.end(),
                     [&](const objects::StatusOutcome& each) { return each.pod == name; });
}

void FillOutcomes(const capture::AttemptResult& result, objects::RequestStatus& status) {
  status.outcomes.clear();
  status.causes.clear();
  ByteBudget room(kMaxOutcomesBytes);
  bool full = false;
  for (const capture::WorkerResult* worker : capture::WorstFirst(result)) {
    CountCause(std::string(Name(worker->outcome)), status.causes);
    full = full || status.outcomes.size() == kMaxOutcomes;
    if (full || HasOutcomeOf(worker->target.name, status)) continue;
    const std::optional<Nanos> lateness = capture::LatenessOf(*worker);
    objects::StatusOutcome outcome{.pod = worker->target.name,
                                   .cause = std::string(Name(worker->outcome)),
                                   .message = CutUtf8(worker->message, kMaxOutcomeMessageBytes),
                                   .lateness = lateness ? FormatDuration(*lateness) : ""};
    full = !room.Take(outcome.pod.size() + outcome.cause.size() + outcome.message.size() +
                      outcome.lateness.size());
    if (!full) status.outcomes.push_back(std::move(outcome));
  }
}

// Workers that cannot record come first, worst first, then the others in the order of the targets.
void FillPreflight(const objects::ProfileRequest& request, const capture::AttemptResult& result,
                   objects::RequestStatus& status) {
  status.preflight.clear();
  if (!request.capture.preflight_only) return;
  std::vector<const capture::WorkerResult*> workers = capture::WorstFirst(result);
  for (const capture::WorkerResult& worker : result.workers) {
    if (worker.outcome == Outcome::kOk) workers.push_back(&worker);
  }
  ByteBudget room(kMaxPreflightBytes);
  for (const capture::WorkerResult* worker : workers) {
    if (status.preflight.size() == kMaxPreflight) break;
    const auto known = [&](const objects::StatusPreflight& each) {
      return each.pod == worker->target.name;
    };
    if (std::any_of(status.preflight.begin(), status.preflight.end(), known)) continue;
    objects::StatusPreflight told;
    told.pod = worker->target.name;
    told.cause = std::string(Name(worker->outcome));
    told.message = CutUtf8(worker->message, kMaxOutcomeMessageBytes);
    told.sidecar = CutUtf8(worker->sidecar, kMaxVersionBytes);
    told.sources = worker->sources;
    if (worker->error) {
      told.clock_offset = FormatDuration(worker->offset);
      told.clock_error = FormatDuration(*worker->error);
    }
    std::size_t text = told.pod.size() + told.cause.size() + told.message.size() +
                       told.sidecar.size() + told.clock_offset.size() + told.clock_error.size();
    for (const std::string& source : told.sources) text += source.size();
    constexpr std::size_t kMoreFields = 50;  // An entry has more fields than one of `outcomes`.
    if (!room.Take(text + kMoreFields)) break;
    status.preflight.push_back(std::move(told));
  }
}

// The states with as many of the workers' names as there is room for.
std::vector<capture::WorkersInState> Shortened(std::vector<capture::WorkersInState> states) {
  ByteBudget room(kMaxProgressBytes);
  for (capture::WorkersInState& in : states) {
    std::size_t kept = 0;
    while (kept < in.names.size() && room.Take(in.names[kept].size())) ++kept;
    in.names.resize(kept);
  }
  return states;
}

void FillClock(const capture::AttemptResult& result, objects::RequestStatus& status) {
  const capture::WorkerResult* widest = nullptr;
  for (const capture::WorkerResult& worker : result.workers) {
    if (!worker.error) continue;
    if (widest == nullptr || std::chrono::abs(worker.offset) > std::chrono::abs(widest->offset))
      widest = &worker;
  }
  if (widest == nullptr) return;
  status.clock_pod = widest->target.name;
  status.clock_offset = FormatDuration(widest->offset);
  status.clock_error = FormatDuration(*widest->error);
}

void FillSteps(const capture::AttemptResult& result, objects::RequestStatus& status) {
  constexpr std::size_t kMaxLoopBytes = 64;
  status.steps_loop = status.steps_spread = "";
  if (!result.steps) return;
  status.steps_loop = CutUtf8(result.steps->loop, kMaxLoopBytes);
  status.first_step = result.steps->first;
  status.last_step = result.steps->last;
  if (result.steps->spread) status.steps_spread = FormatDuration(result.steps->spread->achieved);
}

void FillTargets(const capture::AttemptResult& result, objects::RequestStatus& status) {
  status.targets.clear();
  for (const capture::RoleResult& role : result.roles) {
    objects::StatusTarget& target = status.targets.emplace_back();
    target.name = role.role;
    target.pods = role.pods;
    target.ok = role.ok;
    if (!role.skew) continue;
    target.skew = FormatDuration(role.skew->achieved);
    if (role.skew->error) target.skew_error = FormatDuration(*role.skew->error);
  }
}

// Adds what `result` recorded to what the attempts before it recorded and wrote.
void AddToAll(const objects::ProfileRequest& request, const capture::AttemptResult& result,
              objects::RequestStatus& status) {
  const objects::RequestStatus& before = request.status;
  status.recorded = before.recorded.value_or(Nanos{0});
  // Its end may be known already, because an answer to the write of the status was lost.
  const bool counted = before.attempt == result.attempt && before.recorded &&
                       (before.retry_time || objects::IsFinished(before));
  if (counted) return;
  status.bytes = before.bytes + result.bytes;
  if (result.armed > 0) {
    *status.recorded +=
        result.duration.value_or(request.capture.duration) + request.capture.look_back;
  }
}

void FillResult(const objects::ProfileRequest& request, const capture::AttemptResult& result,
                objects::RequestStatus& status) {
  AddToAll(request, result, status);
  status.attempt = result.attempt;
  status.matched = result.workers.size();
  status.expected = result.expected_workers;
  status.armed = result.armed;
  status.ok = result.ok;
  status.empty = result.empty;
  status.failed = result.workers.size() - std::min(result.workers.size(), result.ok + result.empty);
  status.run = result.bytes > 0 ? RunUrl(request, result.run) : "";
  if (result.plan && result.armed > 0) status.start_time = kube::WholeSeconds(result.plan->instant);
  status.skew = result.skew ? FormatDuration(result.skew->achieved) : "";
  status.skew_error = result.skew && result.skew->error ? FormatDuration(*result.skew->error) : "";
  status.reached_back = result.reached_back ? FormatDuration(*result.reached_back) : "";
  FillTargets(result, status);
  FillSteps(result, status);
  FillOutcomes(result, status);
  FillPreflight(request, result, status);
  FillClock(result, status);
  status.report = CutUtf8(result.report.headline, kMaxHeadlineBytes);
}

// The lines of a text, without the control characters that names of programs may have. Lines for
// which there is no room are left out.
std::vector<std::string> CleanLines(std::string_view text, std::size_t most_lines,
                                    std::size_t most_bytes) {
  std::vector<std::string> lines;
  std::size_t bytes = 0;
  for (const std::string& line : Split(text, '\n')) {
    lines.push_back(CutUtf8(WithoutControls(line), kMaxLineBytes));
    bytes += lines.back().size();
    if (bytes <= most_bytes && lines.size() <= most_lines) continue;
    lines.back() = "...";
    break;
  }
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

// Whether the job stands still: the condition's message is the verdict's first line.
void FillStall(const objects::ProfileRequest& request, const capture::StallReport* report,
               WallTime now, objects::RequestStatus& status) {
  if (!request.capture.collects_evidence) return;
  if (report == nullptr || report->empty()) {
    if (status.stall.kind.empty())
      Set(request, condition::kStalled, kUnknown, "Pending", "", now, status);
    return;
  }
  objects::StatusStall& stall = status.stall;
  stall.kind = report->kind;
  stall.confidence = report->confidence;
  stall.details = CleanLines(report->text, kMaxVerdictLines, kMaxVerdictBytes);
  stall.verdict = stall.details.empty() ? "" : stall.details.front();
  if (!stall.details.empty()) stall.details.erase(stall.details.begin());
  stall.stacks = CleanLines(report->stacks, kMaxStackLines, kMaxStacksBytes);
  stall.culprits.clear();
  for (const capture::StallCulprit& culprit : report->culprits) {
    const auto known = [&](const capture::StallCulprit& one) { return one.rank == culprit.rank; };
    if (std::any_of(stall.culprits.begin(), stall.culprits.end(), known)) continue;
    if (stall.culprits.size() == kMaxCulprits) break;
    stall.culprits.push_back(culprit);
    stall.culprits.back().line = CutUtf8(WithoutControls(culprit.line), kMaxOutcomeMessageBytes);
  }
  const kube::ConditionStatus value = report->stalled()               ? kTrue
                                      : report->kind == "Progressing" ? kFalse
                                                                      : kUnknown;
  Set(request, condition::kStalled, value, report->kind, stall.verdict, now, status);
}

std::string AcceptedWords(std::size_t matched, const std::string& note) {
  return note.empty() ? StrCat(matched, " workers") : note;
}

std::string WhichStep(const std::optional<capture::StartPlan>& plan) {
  if (!plan) return "";
  if (!plan->no_steps.empty()) return StrCat("; a window of time: ", plan->no_steps);
  if (!plan->steps) return "";
  return StrCat("; begins at step ", plan->steps->first, " of ", plan->steps->loop,
                ", expected at ", FormatRfc3339(kube::WholeSeconds(plan->steps->begin)));
}

std::string ReasonOf(capture::Phase phase) {
  switch (phase) {
    case capture::Phase::kPreflight:
      return "Preflight";
    case capture::Phase::kArming:
      return "Arming";
    case capture::Phase::kDelay:
      return "Armed";
    case capture::Phase::kRecording:
      return "Recording";
    case capture::Phase::kCollecting:
      return "Collecting";
    default:
      return "Publishing";
  }
}

}  // namespace

objects::RequestStatus PendingStatus(const objects::ProfileRequest& request,
                                     const std::string& reason, const std::string& message,
                                     WallTime now) {
  objects::RequestStatus status = Begin(request);
  // Between two attempts the retry time says that the earlier one has ended: it must be kept.
  status.retry_time = request.status.retry_time;
  Set(request, condition::kAccepted, kFalse, reason, message, now, status);
  Set(request, condition::kStarted, kUnknown, "Pending", "", now, status);
  Set(request, condition::kSynchronized, kUnknown, "Pending", "", now, status);
  Set(request, condition::kSucceeded, kUnknown, reason, message, now, status);
  Set(request, "Failed", kUnknown, "Pending", "", now, status);
  return status;
}

objects::RequestStatus QueuedStatus(const objects::ProfileRequest& request,
                                    const CaptureQueue::Position& place, WallTime now) {
  objects::RequestStatus status = PendingStatus(
      request, "WaitingForWorkers",
      StrCat(place.ahead, place.ahead == 1 ? " capture is" : " captures are", " ahead of it on ",
             place.worker, "; the last one before it: ", place.behind),
      now);
  status.queue_position = place.ahead;
  return status;
}

objects::RequestStatus ActiveStatus(const objects::ProfileRequest& request, int attempt,
                                    const capture::AttemptProgress& progress, WallTime now) {
  objects::RequestStatus status = Begin(request);
  status.attempt = attempt;
  status.matched = progress.matched;
  status.expected = progress.expected_workers;
  status.armed = progress.armed;
  status.progress = Shortened(progress.states);
  status.preflight.clear();  // The answers to an earlier attempt.
  status.run = RunUrl(request, storage::RunOfAttempt(request.capture.run, attempt));
  // A plan that preflight knows is that of the previous leader, which has told of the start.
  const bool taken_over = progress.phase == capture::Phase::kPreflight && progress.plan &&
                          progress.plan->instant <= now;
  const bool started =
      (taken_over || progress.phase >= capture::Phase::kDelay) && progress.armed > 0;
  if (started && progress.plan) status.start_time = kube::WholeSeconds(progress.plan->instant);
  Set(request, condition::kAccepted, kTrue, "Valid",
      AcceptedWords(progress.matched, progress.workers_note), now, status);
  if (started)
    Set(request, condition::kStarted, kTrue, "Armed",
        StrCat(progress.armed, " of ", progress.matched, " workers armed",
               WhichStep(progress.plan)),
        now, status);
  else
    Set(request, condition::kStarted, kUnknown, "Preflight", "", now, status);
  Set(request, condition::kSynchronized, kUnknown, "InProgress", "", now, status);
  FillStall(request, progress.stall.get(), now, status);
  const std::string count = StrCat("attempt ", attempt, " of ", request.capture.attempts);
  const bool reads =
      request.capture.collects_evidence && progress.phase == capture::Phase::kPreflight;
  if (progress.waits_for.empty())
    Set(request, condition::kSucceeded, kUnknown,
        reads ? "ReadingEvidence" : ReasonOf(progress.phase), count, now, status);
  else
    Set(request, condition::kSucceeded, kUnknown, "WaitingForReadiness",
        StrCat(count, "; ", progress.waits_for), now, status);
  Set(request, "Failed", kUnknown, "InProgress", "", now, status);
  return status;
}

objects::RequestStatus RetryStatus(const objects::ProfileRequest& request,
                                   const capture::AttemptResult& result, WallTime retry,
                                   WallTime now) {
  objects::RequestStatus status = Begin(request);
  FillResult(request, result, status);
  status.retry_time = kube::WholeSeconds(retry);
  Set(request, condition::kAccepted, kTrue, "Valid",
      AcceptedWords(result.workers.size(), result.workers_note), now, status);
  Set(request, condition::kStarted, result.armed > 0 ? kTrue : kFalse,
      result.armed > 0 ? "Armed" : result.reason, "", now, status);
  Set(request, condition::kSynchronized, kUnknown, "InProgress", result.sync_message, now, status);
  Set(request, condition::kSucceeded, kUnknown, "Retrying",
      StrCat("attempt ", result.attempt, " of ", request.capture.attempts,
             " failed: ", result.message),
      now, status);
  Set(request, "Failed", kUnknown, "InProgress", "", now, status);
  return status;
}

objects::RequestStatus FinishedStatus(const objects::ProfileRequest& request,
                                      const capture::AttemptResult& result, WallTime now) {
  objects::RequestStatus status = Begin(request);
  FillResult(request, result, status);
  status.completion_time = kube::WholeSeconds(now);
  Set(request, condition::kAccepted, kTrue, "Valid",
      AcceptedWords(result.workers.size(), result.workers_note), now, status);
  const bool preflight_only = request.capture.preflight_only;
  FillStall(request, &result.stall, now, status);
  Set(request, condition::kStarted, result.armed > 0 ? kTrue : kFalse,
      result.armed > 0                    ? "Armed"
      : preflight_only                    ? "PreflightOnly"
      : request.capture.collects_evidence ? "EvidenceOnly"
                                          : result.reason,
      StrCat(result.armed, " of ", result.workers.size(), " workers armed"), now, status);
  Set(request, condition::kSynchronized, result.synchronized ? kTrue : kFalse, result.sync_reason,
      result.sync_message, now, status);
  std::string message = result.message;
  if (!result.manifest_error.empty())
    message += StrCat("; the manifest could not be written: ", result.manifest_error);
  if (!result.stall.not_kept.empty())
    message += StrCat("; evidence could not be written: ", result.stall.not_kept);
  Set(request, condition::kSucceeded, result.succeeded ? kTrue : kFalse, result.reason, message,
      now, status);
  Set(request, "Failed", result.succeeded ? kFalse : kTrue, result.reason,
      result.succeeded ? "" : message, now, status);
  return status;
}

objects::RequestStatus WithdrawnStatus(const objects::ProfileRequest& request,
                                       const std::string& reason, const std::string& message,
                                       WallTime now) {
  objects::RequestStatus status = request.status;
  Set(request, condition::kStalled, kFalse, reason, message, now, status);
  return status;
}

objects::RequestStatus RefusedStatus(const objects::ProfileRequest& request,
                                     const std::string& reason, const std::string& message,
                                     WallTime now) {
  objects::RequestStatus status = Begin(request);
  status.completion_time = kube::WholeSeconds(now);
  Set(request, condition::kAccepted, kFalse, reason, message, now, status);
  Set(request, condition::kStarted, kFalse, reason, "", now, status);
  Set(request, condition::kSynchronized, kFalse, reason, "", now, status);
  Set(request, condition::kSucceeded, kFalse, reason, message, now, status);
  Set(request, "Failed", kTrue, reason, message, now, status);
  return status;
}

bool SameStatus(const objects::RequestStatus& a, const objects::RequestStatus& b) {
  const auto key = [](const objects::RequestStatus& s) {
    return std::tie(s.observed_generation, s.run, s.viewer, s.start_time, s.completion_time,
                    s.retry_time, s.attempt, s.queue_position, s.matched, s.expected, s.armed, s.ok,
                    s.empty, s.failed, s.targets, s.skew, s.skew_error, s.steps_loop,
                    s.steps_spread, s.reached_back, s.recorded, s.first_step, s.last_step,
                    s.clock_pod, s.clock_offset, s.clock_error, s.report, s.stall, s.bytes,
                    s.preflight, s.progress);
  };
  return key(a) == key(b) && a.conditions == b.conditions &&
         std::equal(a.outcomes.begin(), a.outcomes.end(), b.outcomes.begin(), b.outcomes.end(),
                    [](const objects::StatusOutcome& x, const objects::StatusOutcome& y) {
                      return std::tie(x.pod, x.cause, x.message, x.lateness) ==
                             std::tie(y.pod, y.cause, y.message, y.lateness);
                    }) &&
         std::equal(a.causes.begin(), a.causes.end(), b.causes.begin(), b.causes.end(),
                    [](const objects::StatusCause& x, const objects::StatusCause& y) {
                      return std::tie(x.cause, x.workers) == std::tie(y.cause, y.workers);
                    });
}

}  // namespace strobe::request
