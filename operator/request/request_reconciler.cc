#include "operator/request/request_reconciler.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "capture/min_workers.h"
#include "capture/retry.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/protocol/outcome.h"
#include "operator/job/pending_reason.h"
#include "operator/job/pod_evidence.h"
#include "operator/request/finalizer.h"
#include "operator/request/request_status.h"
#include "operator/request/target_pods.h"

namespace strobe {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Pods of a job that is just being created may take this long to appear, unless the request waits
// for less.
constexpr Nanos kTargetPatience = seconds(30);
// Pods that were created just before the request are missing from the API server's cache this long.
constexpr Nanos kMinPatience = seconds(2);
constexpr Nanos kStatusPace = milliseconds(300);  // Between two writes of an active status.
// The pause between two writes that change only what single workers do: the first time, or the
// second times the number of captures if that is longer. So all captures together write at most
// five times a second.
constexpr Nanos kWorkersPace = seconds(1), kWorkersPaceOfMany = milliseconds(200);
// Requests that wait for workers refresh their place in the status at this interval, times their
// number: together they write 20 times a second at most.
constexpr Nanos kPlaceRefresh = milliseconds(50);
// A request that waits rests so many times as long as its look at the pods took, so that looks at
// many or large pods leave the thread to others.
constexpr int kRestAfterLook = 4;
// Access and policies are judged again right before a capture, unless the verdict is younger.
constexpr Nanos kVerdictAge = seconds(1);
constexpr Nanos kJudgeLimit = seconds(20);

// Whether the previous leader has begun this very attempt.
bool Resumes(const ProfileRequest& request, int number) {
  return request.status.attempt == number && !request.status.retry_time;
}

// Whether the next attempt is due, which should begin in `left`. A time that is further away than
// any wait was written by a clock that was ahead.
bool IsDue(Nanos left) { return left <= Nanos{0} || left > kMaxRetryWait + kClocksDiffer; }

}  // namespace

RequestReconciler::RequestReconciler(Dependencies dependencies)
    : deps_(std::move(dependencies)),
      table_(deps_.clock, deps_.metrics, deps_.enqueue),
      end_(deps_),
      cleanup_(deps_, table_, [this](const std::string& key, const ProfileRequest& request) {
        return Begin(key, request, request.status.attempt).status();
      }) {}

absl::StatusOr<ReconcileResult> RequestReconciler::Reconcile(const std::string& key) {
  const absl::StatusOr<ProfileRequest> found = deps_.cluster.GetRequest(key);
  std::shared_ptr<LiveCapture> live = table_.Find(key);
  if (absl::IsNotFound(found.status())) {
    cleanup_.AfterDeletion(key, live.get());
    return ReconcileResult{};
  }
  RETURN_IF_ERROR(found.status());
  const ProfileRequest& request = *found;
  if (live != nullptr && live->uid != request.uid) {  // Deleted and created again.
    cleanup_.AfterDeletion(key, live.get());
    live = nullptr;
  }
  if (request.deleting) return cleanup_.BeforeDeletion(key, request);
  if (IsFinished(request.status)) {
    if (live != nullptr) end_.TellIfUntold(request, *live);
    return cleanup_.AfterEnd(key, request);
  }
  if (live != nullptr) return Follow(key, request, *live);
  if (!request.invalid.empty()) return end_.Refuse(request, "InvalidSpec", request.invalid);
  if (request.cancel && request.status.attempt == 0)
    return end_.Cancelled(request, "cancelled before it began");
  if (!request.status.retry_time) return Begin(key, request, std::max(request.status.attempt, 1));
  // Attempt `status.attempt` has ended, and the next one is due at the retry time.
  if (request.cancel) return end_.Cancelled(request, "cancelled between two attempts");
  const Nanos left = *request.status.retry_time - deps_.clock.WallNow();
  if (!IsDue(left)) return ReconcileResult{left};
  return Begin(key, request, std::max(request.status.attempt, 1) + 1);
}

absl::StatusOr<ReconcileResult> RequestReconciler::Begin(const std::string& key,
                                                         const ProfileRequest& request,
                                                         int number) {
  if (table_.retired()) return ReconcileResult{};
  if (deps_.gatekeeper == nullptr) return Launch(key, request, number, {});
  const EarlierCaptures earlier = table_.BeginTry(key, request, number);
  // Whichever way this returns, the request must no longer count as one that is about to begin.
  const absl::Cleanup end_try = [&] { table_.EndTry(key, number); };
  // A capture that is taken up again after a restart was judged before it began.
  if (!Resumes(request, number)) {
    ASSIGN_OR_RETURN(const std::optional<ReconcileResult> held,
                     HoldBack(key, request, number, earlier, Nanos::max()));
    if (held) return *held;
  } else if (request.capture.steps && request.requester) {
    // How long its steps may be recorded was known only to the operator before this one.
    ASSIGN_OR_RETURN(const PolicyVerdict verdict,
                     deps_.gatekeeper->Judge(request, *request.requester, earlier, kJudgeLimit));
    table_.SetAllowed(key, request, number, verdict.max_duration);
  }
  return Launch(key, request, number, earlier);
}

// None: access and policies allow the attempt. A verdict that is younger than `max_age` still
// holds.
RequestReconciler::MaybeResult RequestReconciler::HoldBack(const std::string& key,
                                                           const ProfileRequest& request,
                                                           int number,
                                                           const EarlierCaptures& earlier,
                                                           Nanos max_age) {
  ASSIGN_OR_RETURN(const std::string unknown, deps_.gatekeeper->WhyNotAdmitted(request));
  if (!unknown.empty() || !request.requester) return end_.Refuse(request, "NotAdmitted", unknown);
  // JudgeFromCache() is cheap, so it comes first: many requests may wait, and each asks again and
  // again.
  if (const std::optional<PolicyVerdict> verdict =
          deps_.gatekeeper->JudgeFromCache(request, earlier))
    return Hold(key, request, earlier, *verdict);
  const std::optional<MonoTime> allowed = table_.AllowedAt(key, request, number);
  if (allowed && deps_.clock.MonoNow() - *allowed <= max_age) return std::nullopt;
  ASSIGN_OR_RETURN(const PolicyVerdict verdict,
                   deps_.gatekeeper->Judge(request, *request.requester, earlier, kJudgeLimit));
  if (verdict.kind == PolicyVerdict::Kind::kRefused)
    return end_.Refuse(request, "NotAllowed", verdict.message);
  if (verdict.kind == PolicyVerdict::Kind::kWait) return Hold(key, request, earlier, verdict);
  table_.SetAllowed(key, request, number, verdict.max_duration);
  return std::nullopt;
}

absl::StatusOr<ReconcileResult> RequestReconciler::Hold(const std::string& key,
                                                        const ProfileRequest& request,
                                                        const EarlierCaptures& earlier,
                                                        const PolicyVerdict& verdict) {
  if (request.capture.preflight_only)
    return end_.Refuse(request, "WaitingForPolicy",
                       StrCat("a capture would have to wait: ", verdict.message));
  table_.SetHeld(key);
  RETURN_IF_ERROR(Write(
      request, PendingStatus(request, "WaitingForPolicy", verdict.message, deps_.clock.WallNow())));
  // The end of an earlier capture wakes the request. Nothing announces that time has passed or that
  // a policy has changed, so the request looks again itself.
  const Nanos look = table_.Pace(key, request);
  if (earlier.ahead > 0 || !verdict.wait) return ReconcileResult{look};
  return ReconcileResult{std::min<Nanos>(*verdict.wait, std::max(look, kMaxPoll))};
}

absl::StatusOr<ReconcileResult> RequestReconciler::Launch(const std::string& key,
                                                          const ProfileRequest& request, int number,
                                                          const EarlierCaptures& earlier) {
  if (const absl::StatusOr<PodQuery> query = QueryFor(request.target); !query.ok())
    return end_.Refuse(request, "UnknownJobKind", MessageOf(query.status()));
  const bool resumes = Resumes(request, number);
  const MonoTime began = deps_.clock.MonoNow();
  const Nanos waited = began - table_.WaitsSince(key, request, number);
  absl::StatusOr<Selection> selection = Select(
      request, /*patient=*/!resumes && !request.capture.preflight_only && waited < kTargetPatience);
  if (absl::IsInvalidArgument(selection.status()))
    return end_.Refuse(request, "InvalidTarget", MessageOf(selection.status()));
  if (absl::IsPermissionDenied(selection.status())) {
    RETURN_IF_ERROR(
        Write(request, PendingStatus(request, "CannotListPods", MessageOf(selection.status()),
                                     deps_.clock.WallNow())));
    return ReconcileResult{std::max(table_.Pace(key, request), kTargetPatience)};
  }
  RETURN_IF_ERROR(selection.status());
  const absl::StatusOr<std::size_t> least =
      ResolveMinWorkers(request.min_workers, selection->targets.size());
  if (!least.ok())
    return end_.Refuse(request, "InvalidMinWorkers",
                       StrCat("minWorkers: ", MessageOf(least.status())));
  ASSIGN_OR_RETURN(const std::optional<ReconcileResult> waits,
                   AwaitTargets(key, request, number, *selection, *least));
  if (waits) {
    // Requests behind it may want only workers that are there.
    table_.LeaveQueue(key);
    const Nanos took = deps_.clock.MonoNow() - began;
    return ReconcileResult{
        std::max(waits->requeue_after.value_or(Nanos{0}), kRestAfterLook * took)};
  }
  ASSIGN_OR_RETURN(const std::optional<ReconcileResult> queued,
                   AwaitTurn(key, request, selection->targets, resumes));
  if (queued) return *queued;
  if (deps_.gatekeeper != nullptr && !resumes) {
    ASSIGN_OR_RETURN(const std::optional<ReconcileResult> held,
                     HoldBack(key, request, number, earlier, kVerdictAge));
    if (held) {
      table_.LeaveQueue(key);
      return *held;
    }
  }
  CaptureSpec spec = request.capture;
  spec.max_steps_time = table_.MaxDurationOf(key, request, number);
  spec.min_workers = *least;
  spec.workers_note = CountWords(*selection);
  spec.expected_workers = selection->expected;
  spec.job = selection->job;
  // Without a gatekeeper nobody has proved who created the request.
  if (deps_.gatekeeper != nullptr && request.requester)
    spec.requester = request.requester->username;
  return StartAttempt(key, request, number, std::move(selection->targets), std::move(spec));
}

absl::StatusOr<Selection> RequestReconciler::Select(const ProfileRequest& request, bool patient) {
  ASSIGN_OR_RETURN(const TargetPods found,
                   FindTargetPods(deps_.cluster, request.ns, request.target, patient));
  return SelectTargets(request.target, found.query, found.pods,
                       found.shape ? &*found.shape : nullptr);
}

// None: enough workers are there, or the others are not waited for any longer.
RequestReconciler::MaybeResult RequestReconciler::AwaitTargets(const std::string& key,
                                                               const ProfileRequest& request,
                                                               int number,
                                                               const Selection& selection,
                                                               std::size_t wanted) {
  const std::size_t usable = selection.usable();
  if (request.capture.preflight_only) {
    if (!selection.targets.empty()) return std::nullopt;  // Each tells why it cannot record.
    const PendingReason why = WhyPending(selection);
    return end_.Refuse(request, why.reason, why.message);
  }
  if (usable > 0 && (usable >= wanted || Resumes(request, number))) return std::nullopt;
  // The time for which a job is suspended does not count as waiting.
  if (selection.suspended) table_.RestartWait(key, request, number);
  Nanos patience = request.capture.ready_timeout;
  if (usable == 0) patience = std::max(patience, kMinPatience);
  const Nanos left = table_.WaitsSince(key, request, number) + patience - deps_.clock.MonoNow();
  const bool hopeless = selection.expected && usable > 0 && usable + selection.may_come() < wanted;
  const PendingReason why = WhyPending(selection);
  if (selection.suspended || (left > Nanos{0} && !hopeless)) {
    RETURN_IF_ERROR(
        Write(request, PendingStatus(request, why.reason, why.message, deps_.clock.WallNow())));
    const Nanos look = table_.Pace(key, request);
    return ReconcileResult{selection.suspended ? look : std::min(look, left)};
  }
  // With some usable workers the attempt begins; the outcomes of the missing ones end it.
  if (usable > 0) return std::nullopt;
  return end_.Refuse(request, why.reason, why.message);
}

// Returns nothing if no other capture comes first on any of the workers.
RequestReconciler::MaybeResult RequestReconciler::AwaitTurn(const std::string& key,
                                                            const ProfileRequest& request,
                                                            const std::vector<Target>& targets,
                                                            bool resumes) {
  // A request that only preflights needs no turn: it records nothing, keeps no capture waiting, and
  // reports a busy worker as busy.
  if (request.capture.preflight_only) return std::nullopt;
  std::set<std::string> workers;
  for (const Target& target : targets) {
    if (target.usable()) workers.insert(StrCat(request.ns, "/", target.name));
  }
  if (resumes) {
    table_.HoldQueue(key, workers);
    return std::nullopt;
  }
  // A request's next attempt joins the end of the line: requests that waited meanwhile come first.
  const RequestTable::QueuePosition turn =
      table_.EnterQueue(key, request.status.retry_time.value_or(request.created), workers);
  if (turn.position.ahead == 0) return std::nullopt;
  RETURN_IF_ERROR(Write(request, QueuedStatus(request, turn.position, deps_.clock.WallNow())));
  // Its turn wakes it. Until then, only its place in the status needs to be refreshed.
  return ReconcileResult{
      std::clamp<Nanos>(static_cast<int>(turn.waiting) * kPlaceRefresh, seconds(2), seconds(60))};
}

absl::StatusOr<ReconcileResult> RequestReconciler::StartAttempt(const std::string& key,
                                                                const ProfileRequest& request,
                                                                int number,
                                                                std::vector<Target> targets,
                                                                CaptureSpec spec) {
  auto live = std::make_shared<LiveCapture>();
  live->uid = request.uid;
  live->number = number;
  live->began = deps_.clock.WallNow();
  live->targets = targets;
  live->written_at = deps_.clock.MonoNow();
  live->spec = std::move(spec);
  ASSIGN_OR_RETURN(const ProfileRequest held, AddFinalizer(key, request));
  // The attempt's number must be in the status before any worker is armed: an operator that takes
  // over looks for this capture at the sidecars instead of starting another.
  AttemptProgress preflight;
  preflight.matched = targets.size();
  preflight.workers_note = live->spec.workers_note;
  preflight.expected_workers = live->spec.expected_workers;
  RETURN_IF_ERROR(Write(held, ActiveStatus(held, number, preflight, live->began)));
  live->attempt = CaptureAttempt::Start({.clock = deps_.clock,
                                         .executor = deps_.executor,
                                         .workers = deps_.workers,
                                         .asks_for_evidence = true,
                                         .reporter = deps_.reporter},
                                        live->spec, number, std::move(targets),
                                        [enqueue = deps_.enqueue, key] { enqueue(key); });
  table_.Keep(key, std::move(live));
  return ReconcileResult{};
}

// With the finalizer a deletion waits until the capture is cancelled. Returns the request as the
// write left it; Aborted when somebody changed it meanwhile.
absl::StatusOr<ProfileRequest> RequestReconciler::AddFinalizer(const std::string& key,
                                                               const ProfileRequest& request) {
  if (HasFinalizer(request) || request.deleting) return request;
  RETURN_IF_ERROR(deps_.cluster.SetFinalizers(request, WithFinalizer(request)));
  ASSIGN_OR_RETURN(ProfileRequest held, deps_.cluster.GetRequest(key));
  if (held.uid != request.uid || held.deleting || !HasFinalizer(held))
    return absl::AbortedError("the request was changed meanwhile");
  return held;
}

absl::StatusOr<ReconcileResult> RequestReconciler::Follow(const std::string& key,
                                                          const ProfileRequest& request,
                                                          LiveCapture& live) {
  if (request.cancel) live.attempt->Cancel("spec.cancel was set");
  const AttemptProgress progress = live.attempt->progress();
  if (progress.phase != Phase::kDone) return ShowProgress(request, progress, live);
  if (!live.counted) CountEnd(key, request, progress, live);
  const AttemptResult& result = *progress.result;
  if (!live.retry) return end_.Finish(request, result, live);
  if (request.cancel) return end_.Cancelled(request, "cancelled between two attempts");
  const WallTime now = deps_.clock.WallNow();
  const WallTime due = std::chrono::ceil<seconds>(*live.retry);  // As precise as the status.
  const Nanos left = due - now;
  // The next attempt replaces the status, which must have what this one recorded.
  const bool written = request.status.retry_time && request.status.attempt == live.number;
  if (written && IsDue(left)) return Begin(key, request, live.number + 1);
  RETURN_IF_ERROR(Write(request, RetryStatus(request, result, due, now)));
  return ReconcileResult{std::max(left, Nanos{0})};
}

absl::StatusOr<ReconcileResult> RequestReconciler::ShowProgress(const ProfileRequest& request,
                                                                const AttemptProgress& progress,
                                                                LiveCapture& live) {
  if (progress.wants_evidence) {
    // Without an answer from the API server the attempt goes on with no evidence.
    live.attempt->TellEvidence(
        EvidenceOf(request, live).value_or(std::map<std::string, std::string>()));
  }
  // The phases of a short capture follow each other faster than anybody can read them. Only the
  // first report that workers are armed is written at once, because scripts and people wait for it.
  const bool armed = progress.phase >= Phase::kDelay && progress.armed > 0;
  const RequestStatus status = ActiveStatus(request, live.number, progress, deps_.clock.WallNow());
  if (!SameStatus(request.status, status)) {
    const Nanos pace = armed && !live.told_armed ? Nanos{0} : PaceOf(request.status, status);
    if (const Nanos since = deps_.clock.MonoNow() - live.written_at; since < pace)
      return ReconcileResult{pace - since};
    RETURN_IF_ERROR(deps_.cluster.WriteStatus(request, status));
    live.written_at = deps_.clock.MonoNow();
  }
  live.told_armed = armed;
  if (progress.phase >= Phase::kDelay)
    TellArmed(request, progress.armed, progress.matched, live.number);
  return ReconcileResult{};
}

// How long after the former write of an active status the next one may follow.
Nanos RequestReconciler::PaceOf(const RequestStatus& former, RequestStatus status) const {
  status.progress = former.progress;
  if (!SameStatus(former, status)) return kStatusPace;
  return std::max<Nanos>(kWorkersPace, kWorkersPaceOfMany * table_.active());
}

void RequestReconciler::CountEnd(const std::string& key, const ProfileRequest& request,
                                 const AttemptProgress& progress, LiveCapture& live) {
  const AttemptResult& result = *progress.result;
  live.counted = true;
  table_.LeaveQueue(key);
  TellArmed(request, result.armed, result.workers.size(), result.attempt);
  deps_.CountAttempt(request, progress);
  if (request.cancel) return;
  const std::optional<Nanos> wait = RetryAfter(live.spec, result);
  if (!wait) return;
  live.retry = deps_.clock.WallNow() + *wait;
  deps_.cluster.RecordEvent(request, /*warning=*/true, "AttemptFailed", "Retry",
                            StrCat("attempt ", result.attempt, ": ", result.message));
}

absl::StatusOr<std::map<std::string, std::string>> RequestReconciler::EvidenceOf(
    const ProfileRequest& request, const LiveCapture& live) {
  ASSIGN_OR_RETURN(const TargetPods found, FindPodsOnly(deps_.cluster, request.ns, request.target));
  return EvidenceByTarget(live.targets, found.pods, live.began);
}

// Records the event once per attempt: the status remembers it.
void RequestReconciler::TellArmed(const ProfileRequest& request, std::size_t armed,
                                  std::size_t matched, int number) {
  const Condition* started = FindCondition(request.status, condition::kStarted);
  if (armed == 0 || (started != nullptr && started->status == ConditionStatus::kTrue)) return;
  deps_.cluster.RecordEvent(request, /*warning=*/false, "CaptureArmed", "Arm",
                            StrCat(armed, " of ", matched, " workers armed, attempt ", number));
}

absl::Status RequestReconciler::Write(const ProfileRequest& request, const RequestStatus& status) {
  if (SameStatus(request.status, status)) return absl::OkStatus();
  return deps_.cluster.WriteStatus(request, status);
}

}  // namespace strobe
