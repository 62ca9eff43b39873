#include "operator/request/attempt_launcher.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "capture/spec.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "operator/job/pod_evidence.h"
#include "operator/objects/request.h"
#include "operator/request/request_status.h"
#include "operator/request/target_pods.h"

namespace strobe::request {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Pods of a job that is just being created may take this long to appear, unless the request waits
// for less.
constexpr Nanos kTargetPatience = seconds(30);
// Pods that were created just before the request are missing from the API server's cache this long.
constexpr Nanos kMinPatience = seconds(2);
// Requests that wait for workers refresh their place in the status at this interval, times their
// number: together they write 20 times a second at most.
constexpr Nanos kPlaceRefresh = milliseconds(50);
// A request that waits rests so many times as long as its look at the pods took, so that looks at
// many or large pods leave the thread to others.
constexpr int kRestAfterLook = 4;
// Access and policies are judged again right before a capture, unless the verdict is younger.
constexpr Nanos kVerdictAge = seconds(1);
constexpr Nanos kJudgeLimit = seconds(20);

// Sets how many workers of each target must end well.
absl::Status ResolveLeast(const objects::ProfileRequest& request,
                          std::vector<job::TargetSelection>& selections) {
  const std::span<const job::TargetSpec> targets = objects::TargetsOf(request);
  for (std::size_t i = 0; i < selections.size(); ++i) {
    const std::string& own = targets[i].min_workers;
    const absl::StatusOr<std::size_t> least = capture::ResolveMinWorkers(
        own.empty() ? request.min_workers : own, selections[i].selection.targets.size());
    if (!least.ok())
      return absl::InvalidArgumentError(
          job::OfTarget(selections[i].name, StrCat("minWorkers: ", MessageOf(least.status()))));
    selections[i].least = *least;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<kube::ReconcileResult> AttemptLauncher::Begin(const std::string& key,
                                                             const objects::ProfileRequest& request,
                                                             int number) {
  if (table_.retired()) return kube::ReconcileResult{};
  PendingRequest pending{.key = key, .request = request, .number = number};
  if (deps_.gatekeeper == nullptr) return Launch(pending);
  pending.earlier = table_.BeginTry(pending);
  // Whichever way this returns, the request must no longer count as one that is about to begin.
  const absl::Cleanup end_try = [&] { table_.EndTry(pending); };
  // A capture that is taken up again after a restart was judged before it began.
  if (!pending.resumes()) {
    ASSIGN_OR_RETURN(const std::optional<kube::ReconcileResult> held,
                     HoldBack(pending, Nanos::max()));
    if (held) return *held;
  } else if (request.capture.steps && request.requester) {
    // How long its steps may be recorded was known only to the previous leader.
    ASSIGN_OR_RETURN(
        const policy::Verdict verdict,
        deps_.gatekeeper->Judge(request, *request.requester, pending.earlier, kJudgeLimit));
    table_.SetAllowed(pending, verdict.max_duration);
  }
  return Launch(pending);
}

// None: access and policies allow the attempt. A verdict that is younger than `max_age` still
// holds.
AttemptLauncher::MaybeResult AttemptLauncher::HoldBack(const PendingRequest& pending,
                                                       Nanos max_age) {
  const objects::ProfileRequest& request = pending.request;
  ASSIGN_OR_RETURN(const std::string unknown, deps_.gatekeeper->WhyNotAdmitted(request));
  if (!unknown.empty() || !request.requester) return end_.Refuse(request, "NotAdmitted", unknown);
  // JudgeFromCache() is cheap, so it comes first: many requests may wait, and each asks again and
  // again.
  if (const std::optional<policy::Verdict> verdict =
          deps_.gatekeeper->JudgeFromCache(request, pending.earlier))
    return Hold(pending, *verdict);
  const std::optional<MonoTime> allowed = table_.AllowedAt(pending);
  if (allowed && deps_.clock.MonoNow() - *allowed <= max_age) return std::nullopt;
  ASSIGN_OR_RETURN(
      const policy::Verdict verdict,
      deps_.gatekeeper->Judge(request, *request.requester, pending.earlier, kJudgeLimit));
  if (verdict.kind == policy::Verdict::Kind::kRefused)
    return end_.Refuse(request, "NotAllowed", verdict.message);
  if (verdict.kind == policy::Verdict::Kind::kWait) return Hold(pending, verdict);
  table_.SetAllowed(pending, verdict.max_duration);
  return std::nullopt;
}

absl::StatusOr<kube::ReconcileResult> AttemptLauncher::Hold(const PendingRequest& pending,
                                                            const policy::Verdict& verdict) {
  const objects::ProfileRequest& request = pending.request;
  if (request.capture.preflight_only)
    return end_.Refuse(request, "WaitingForPolicy",
                       StrCat("a capture would have to wait: ", verdict.message));
  table_.SetHeld(pending);
  RETURN_IF_ERROR(WriteIfChanged(
      deps_.cluster, request,
      PendingStatus(request, "WaitingForPolicy", verdict.message, deps_.clock.WallNow())));
  // The end of an earlier capture wakes the request. Nothing announces that time has passed or that
  // a policy has changed, so the request looks again itself.
  const Nanos look = table_.Pace(pending);
  if (pending.earlier.ahead > 0 || !verdict.wait) return kube::ReconcileResult{look};
  return kube::ReconcileResult{std::min<Nanos>(*verdict.wait, std::max(look, kMaxPoll))};
}

absl::StatusOr<kube::ReconcileResult> AttemptLauncher::Launch(const PendingRequest& pending) {
  const objects::ProfileRequest& request = pending.request;
  for (const job::TargetSpec& target : objects::TargetsOf(request)) {
    if (const absl::StatusOr<job::PodQuery> query = job::QueryFor(target); !query.ok())
      return end_.Refuse(request, "UnknownJobKind",
                         job::OfTarget(target.name, MessageOf(query.status())));
  }
  const MonoTime began = deps_.clock.MonoNow();
  absl::StatusOr<std::vector<job::TargetSelection>> selections = Select(pending);
  if (absl::IsInvalidArgument(selections.status()))
    return end_.Refuse(request, "InvalidTarget", MessageOf(selections.status()));
  if (absl::IsPermissionDenied(selections.status())) {
    RETURN_IF_ERROR(
        WriteIfChanged(deps_.cluster, request,
                       PendingStatus(request, "CannotListPods", MessageOf(selections.status()),
                                     deps_.clock.WallNow())));
    return kube::ReconcileResult{std::max(table_.Pace(pending), kTargetPatience)};
  }
  RETURN_IF_ERROR(selections.status());
  if (const absl::Status resolved = ResolveLeast(request, *selections); !resolved.ok())
    return end_.Refuse(request, "InvalidMinWorkers", MessageOf(resolved));
  ASSIGN_OR_RETURN(const std::optional<kube::ReconcileResult> waits,
                   AwaitAll(pending, *selections));
  if (waits) {
    // Requests behind it may want only workers that are there.
    table_.LeaveQueue(pending.key);
    const Nanos took = deps_.clock.MonoNow() - began;
    return kube::ReconcileResult{
        std::max(waits->requeue_after.value_or(Nanos{0}), kRestAfterLook * took)};
  }
  absl::StatusOr<job::JoinedTargets> joined = job::JoinTargets(*std::move(selections));
  if (!joined.ok()) return end_.Refuse(request, "InvalidTarget", MessageOf(joined.status()));
  ASSIGN_OR_RETURN(const std::optional<kube::ReconcileResult> queued,
                   AwaitTurn(pending, joined->targets));
  if (queued) return *queued;
  ASSIGN_OR_RETURN(const std::optional<kube::ReconcileResult> held, AwaitPolicy(pending));
  if (held) return *held;
  capture::Spec spec = request.capture;
  spec.max_steps_time = table_.MaxDurationOf(pending);
  spec.min_workers = joined->least;
  spec.roles = std::move(joined->roles);
  // Whatever is missing of the evidence may be the cause of the stall, so nothing is waited for.
  if (spec.collects_evidence) spec.min_workers = 1;
  spec.workers_note = std::move(joined->note);
  spec.expected_workers = joined->expected;
  spec.job = std::move(joined->job);
  // Without a gatekeeper nobody has proved who created the request.
  if (deps_.gatekeeper != nullptr && request.requester)
    spec.requester = request.requester->username;
  return StartAttempt(pending, std::move(joined->targets), std::move(spec));
}

// None: access and policies still allow the attempt, right before it begins.
AttemptLauncher::MaybeResult AttemptLauncher::AwaitPolicy(const PendingRequest& pending) {
  if (deps_.gatekeeper == nullptr || pending.resumes()) return std::nullopt;
  MaybeResult held = HoldBack(pending, kVerdictAge);
  if (held.ok() && *held) table_.LeaveQueue(pending.key);
  return held;
}

absl::StatusOr<std::vector<job::TargetSelection>> AttemptLauncher::Select(
    const PendingRequest& pending) {
  const objects::ProfileRequest& request = pending.request;
  const Nanos waited = deps_.clock.MonoNow() - table_.WaitsSince(pending);
  const bool patient = !pending.resumes() && !request.capture.preflight_only &&
                       !request.capture.collects_evidence && waited < kTargetPatience;
  std::vector<job::TargetSelection> selections;
  for (const job::TargetSpec& target : objects::TargetsOf(request)) {
    const absl::StatusOr<TargetPods> found =
        FindTargetPods(deps_.cluster, request.ns, target, patient);
    if (!found.ok())
      return absl::Status(found.status().code(),
                          ToAbsl(job::OfTarget(target.name, MessageOf(found.status()))));
    selections.push_back(
        {.name = target.name,
         .selection = job::SelectTargets(target, found->query, found->pods,
                                         found->shape ? &*found->shape : nullptr)});
  }
  return selections;
}

// None: enough workers of each target are there, or the others are not waited for any longer.
AttemptLauncher::MaybeResult AttemptLauncher::AwaitAll(
    const PendingRequest& pending, const std::vector<job::TargetSelection>& selections) {
  // Its workers record already, and those of another target may have gone since.
  const bool records =
      std::any_of(selections.begin(), selections.end(),
                  [](const job::TargetSelection& target) { return target.selection.usable() > 0; });
  if (pending.resumes() && records) return std::nullopt;
  for (const job::TargetSelection& target : selections) {
    ASSIGN_OR_RETURN(const std::optional<kube::ReconcileResult> waits,
                     AwaitTarget(pending, target));
    if (waits) return waits;
  }
  return std::nullopt;
}

// None: enough workers are there, or the others are not waited for any longer.
AttemptLauncher::MaybeResult AttemptLauncher::AwaitTarget(const PendingRequest& pending,
                                                          const job::TargetSelection& target) {
  const objects::ProfileRequest& request = pending.request;
  const job::Selection& selection = target.selection;
  const std::size_t usable = selection.usable();
  job::PendingReason why = job::WhyPending(selection);
  why.message = job::OfTarget(target.name, why.message);
  if (request.capture.preflight_only || request.capture.collects_evidence) {
    if (!selection.targets.empty()) return std::nullopt;  // Each tells why it cannot record.
    return end_.Refuse(request, why.reason, why.message);
  }
  if (usable > 0 && usable >= target.least) return std::nullopt;
  // The time for which a job is suspended does not count as waiting.
  if (selection.suspended) table_.RestartWait(pending);
  Nanos patience = request.capture.ready_timeout;
  if (usable == 0) patience = std::max(patience, kMinPatience);
  const Nanos left = table_.WaitsSince(pending) + patience - deps_.clock.MonoNow();
  const bool hopeless =
      selection.expected && usable > 0 && usable + selection.may_come() < target.least;
  if (selection.suspended || (left > Nanos{0} && !hopeless)) {
    RETURN_IF_ERROR(
        WriteIfChanged(deps_.cluster, request,
                       PendingStatus(request, why.reason, why.message, deps_.clock.WallNow())));
    const Nanos look = table_.Pace(pending);
    return kube::ReconcileResult{selection.suspended ? look : std::min(look, left)};
  }
  // With some usable workers the attempt begins; the outcomes of the missing ones end it.
  if (usable > 0) return std::nullopt;
  return end_.Refuse(request, why.reason, why.message);
}

// Returns nothing if no other capture comes first on any of the workers.
AttemptLauncher::MaybeResult AttemptLauncher::AwaitTurn(
    const PendingRequest& pending, const std::vector<capture::Target>& targets) {
  const objects::ProfileRequest& request = pending.request;
  // A request that only preflights needs no turn: it records nothing, keeps no capture waiting, and
  // reports a busy worker as busy. Evidence is read beside a capture.
  if (request.capture.preflight_only || request.capture.collects_evidence) return std::nullopt;
  std::set<std::string> workers;
  for (const capture::Target& target : targets) {
    if (target.usable()) workers.insert(StrCat(request.ns, "/", target.name));
  }
  if (pending.resumes()) {
    table_.HoldQueue(pending, workers);
    return std::nullopt;
  }
  const Table::QueuePosition turn = table_.EnterQueue(pending, workers);
  if (turn.position.ahead == 0) return std::nullopt;
  RETURN_IF_ERROR(WriteIfChanged(deps_.cluster, request,
                                 QueuedStatus(request, turn.position, deps_.clock.WallNow())));
  // Its turn wakes it. Until then, only its place in the status needs to be refreshed.
  return kube::ReconcileResult{
      std::clamp<Nanos>(static_cast<int>(turn.waiting) * kPlaceRefresh, seconds(2), seconds(60))};
}

absl::StatusOr<kube::ReconcileResult> AttemptLauncher::StartAttempt(
    const PendingRequest& pending, std::vector<capture::Target> targets, capture::Spec spec) {
  auto live = std::make_shared<LiveCapture>();
  live->uid = pending.request.uid;
  live->number = pending.number;
  live->began = deps_.clock.WallNow();
  live->targets = targets;
  live->written_at = deps_.clock.MonoNow();
  live->spec = std::move(spec);
  ASSIGN_OR_RETURN(const objects::ProfileRequest held, AddFinalizer(pending));
  // The attempt's number must be in the status before any worker is armed: an operator that takes
  // over looks for this capture at the sidecars instead of starting another.
  capture::AttemptProgress preflight;
  preflight.matched = targets.size();
  preflight.workers_note = live->spec.workers_note;
  preflight.expected_workers = live->spec.expected_workers;
  RETURN_IF_ERROR(WriteIfChanged(deps_.cluster, held,
                                 ActiveStatus(held, pending.number, preflight, live->began)));
  live->attempt =
      capture::Attempt::Start({.clock = deps_.clock,
                               .executor = deps_.executor,
                               .workers = deps_.workers,
                               .asks_for_evidence = true,
                               .reporter = deps_.reporter,
                               .judging = deps_.judging,
                               .evidence_memory = deps_.evidence_memory},
                              live->spec, pending.number, std::move(targets),
                              [enqueue = deps_.enqueue, key = pending.key] { enqueue(key); });
  table_.Keep(pending.key, std::move(live));
  return kube::ReconcileResult{};
}

// With the finalizer a deletion waits until the capture is cancelled. Returns the request as the
// write left it; Aborted when somebody changed it meanwhile.
absl::StatusOr<objects::ProfileRequest> AttemptLauncher::AddFinalizer(
    const PendingRequest& pending) {
  const objects::ProfileRequest& request = pending.request;
  if (HasFinalizer(request) || request.deleting) return request;
  RETURN_IF_ERROR(deps_.cluster.SetFinalizers(request, WithFinalizer(request)));
  ASSIGN_OR_RETURN(objects::ProfileRequest held, deps_.cluster.GetRequest(pending.key));
  if (held.uid != request.uid || held.deleting || !HasFinalizer(held))
    return absl::AbortedError("the request was changed meanwhile");
  return held;
}

}  // namespace strobe::request
