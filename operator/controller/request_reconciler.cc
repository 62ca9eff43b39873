#include "operator/controller/request_reconciler.h"

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "collector/logdir/logdir.h"
#include "common/base/duration.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "operator/core/min_workers.h"
#include "operator/core/names.h"
#include "operator/core/pod_evidence.h"
#include "operator/core/request_status.h"
#include "operator/core/retry.h"

namespace strobe {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Pods of a job that is just being created deserve a little patience.
constexpr Nanos kTargetPatience = seconds(30);
constexpr Nanos kStatusPace = milliseconds(300);   // Of a capture that is under way.
constexpr Nanos kPlaceRefresh = milliseconds(50);  // Times those who wait: bounds the writes.
// Access and policies are asked for again right before a capture, unless that has just been done.
constexpr Nanos kVerdictAge = seconds(1);
constexpr Nanos kJudgeLimit = seconds(20);
constexpr Nanos kReclaimLook = seconds(10);  // Its end wakes us; this is for what cannot happen.
// So long a deletion insists on what the API server does not let it do at present.
constexpr Nanos kCleanUpPatience = std::chrono::minutes(5);

bool Has(const std::vector<std::string>& finalizers) {
  return std::find(finalizers.begin(), finalizers.end(), kFinalizer) != finalizers.end();
}

std::vector<std::string> WithoutOurs(std::vector<std::string> finalizers) {
  std::erase(finalizers, kFinalizer);
  return finalizers;
}

// Whether trying again can end better.
bool MayPass(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsResourceExhausted(status) || absl::IsAborted(status) || absl::IsUnknown(status) ||
         absl::IsInternal(status) || absl::IsDataLoss(status);
}

// Whether an operator before us has begun just this attempt.
bool Resumes(const ProfileRequest& request, int number) {
  return request.status.attempt == number && !request.status.retry_time;
}

}  // namespace

std::shared_ptr<RequestReconciler::Live> RequestReconciler::Find(const std::string& key) const {
  MutexLock lock(&mutex_);
  const auto found = live_.find(key);
  return found == live_.end() ? nullptr : found->second;
}

void RequestReconciler::Keep(const std::string& key, std::shared_ptr<Live> live) {
  MutexLock lock(&mutex_);
  live_[key] = std::move(live);
  waiting_.erase(key);
  pace_.Leave(key);
  deps_.metrics.ActiveCaptures(live_.size());
}

void RequestReconciler::Forget(const std::string& key) {
  std::vector<std::string> woken;
  {
    MutexLock lock(&mutex_);
    live_.erase(key);
    deps_.metrics.ActiveCaptures(live_.size());
    waiting_.erase(key);
    reclaims_.erase(key);
    pace_.Leave(key);
    woken = line_.Leave(key);
  }
  Enqueue(woken);
  LeaveQueue(key);
}

void RequestReconciler::Enqueue(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) deps_.enqueue(key);
}

RequestReconciler::Waiting& RequestReconciler::WaitingOf(const std::string& key,
                                                         const ProfileRequest& request,
                                                         int attempt) {
  Waiting& waiting = waiting_[key];
  if (waiting.uid != request.uid || waiting.number != attempt)
    waiting = {.uid = request.uid, .number = attempt, .since = deps_.clock.MonoNow()};
  return waiting;
}

Nanos RequestReconciler::Pace(const std::string& key, const ProfileRequest& request) {
  MutexLock lock(&mutex_);
  return pace_.Enter(request.space, key);
}

void RequestReconciler::LeaveQueue(const std::string& key) {
  std::vector<std::string> next;
  {
    MutexLock lock(&mutex_);
    next = queue_.Leave(key);
  }
  Enqueue(next);
}

absl::StatusOr<std::optional<ReconcileResult>> RequestReconciler::Queue(
    const std::string& key, const ProfileRequest& request, const std::vector<Target>& targets,
    bool resumes) {
  std::set<std::string> workers;
  for (const Target& target : targets) {
    if (target.outcome == Outcome::kUnknown)
      workers.insert(StrCat(request.space, "/", target.name));
  }
  WorkerQueue::Place place;
  std::size_t waiting = 0;
  {
    MutexLock lock(&mutex_);
    // Another attempt joins the end of the line: who waited meanwhile comes first.
    if (resumes)
      queue_.Hold(key, workers);
    else
      place = queue_.Enter(key, request.status.retry_time.value_or(request.created), workers);
    waiting = queue_.waiting();
  }
  if (place.ahead == 0) return std::nullopt;
  {
    MutexLock lock(&mutex_);
    pace_.Leave(key);
  }
  RETURN_IF_ERROR(Write(request, QueuedStatus(request, place, deps_.clock.WallNow())));
  // Its turn wakes it; until then only its place in the status moves on.
  return ReconcileResult{
      std::clamp<Nanos>(static_cast<int>(waiting) * kPlaceRefresh, seconds(2), seconds(60))};
}

// What Kubernetes knows of the pods, by target. Of a pod whose worker is well nobody asks.
absl::StatusOr<std::map<std::string, std::string>> RequestReconciler::EvidenceOf(
    const ProfileRequest& request, const Live& live) {
  ASSIGN_OR_RETURN(const PodQuery query, QueryFor(request.target));
  ASSIGN_OR_RETURN(const std::vector<PodInfo> pods, deps_.cluster.ListPods(request.space, query));
  std::map<std::string, const PodInfo*> by_name;
  for (const PodInfo& pod : pods) by_name[pod.name] = &pod;
  std::map<std::string, std::string> evidence;
  for (const Target& target : live.targets) {
    const auto pod = by_name.find(target.pod);
    std::string words =
        PodEvidence(target, pod == by_name.end() ? nullptr : pod->second, live.began);
    if (!words.empty()) evidence.emplace(target.name, std::move(words));
  }
  return evidence;
}

std::size_t RequestReconciler::active() const {
  MutexLock lock(&mutex_);
  return live_.size();
}

void RequestReconciler::Retire(const std::string& why) {
  std::map<std::string, std::shared_ptr<Live>> live;
  {
    MutexLock lock(&mutex_);
    retired_ = true;
    live = live_;
  }
  for (const auto& [key, capture] : live) {
    capture->attempt->Cancel(why);
    deps_.enqueue(key);
  }
}

absl::Status RequestReconciler::Write(const ProfileRequest& request, const RequestStatus& status) {
  if (SameStatus(request.status, status)) return absl::OkStatus();
  return deps_.cluster.WriteStatus(request, status);
}

absl::StatusOr<ReconcileResult> RequestReconciler::Reconcile(const std::string& key) {
  absl::StatusOr<ProfileRequest> request = deps_.cluster.GetRequest(key);
  std::shared_ptr<Live> live = Find(key);
  if (absl::IsNotFound(request.status())) {
    if (live != nullptr) GiveUp(key, *live, "the request was deleted");
    Forget(key);
    return ReconcileResult{};
  }
  RETURN_IF_ERROR(request.status());
  if (live != nullptr && live->uid != request->uid) {  // A namesake was created in its place.
    GiveUp(key, *live, "the request was deleted");
    Forget(key);
    live = nullptr;
  }
  if (request->deleting) return CleanUp(key, *request);
  if (IsFinished(request->status)) {
    Forget(key);
    // Nothing is left to clean up of most: they must not need us when they are deleted.
    if (Has(request->finalizers) && !(request->reclaim && request->status.attempt > 0)) {
      RETURN_IF_ERROR(deps_.cluster.SetFinalizers(*request, WithoutOurs(request->finalizers)));
      return ReconcileResult{Nanos{0}};
    }
    return Expire(*request);
  }
  if (live != nullptr) return Follow(key, *request, live);
  if (!request->invalid.empty()) return Refuse(*request, "InvalidSpec", request->invalid);
  if (request->cancel && request->status.attempt == 0)
    return Refuse(*request, "Cancelled", "cancelled before it began");
  const WallTime now = deps_.clock.WallNow();
  int attempt = std::max(request->status.attempt, 1);
  if (request->status
          .retry_time) {  // Attempt `status.attempt` has ended; the next one is due then.
    if (request->cancel) return Refuse(*request, "Cancelled", "cancelled between two attempts");
    if (*request->status.retry_time > now)
      return ReconcileResult{*request->status.retry_time - now};
    ++attempt;
  }
  return Begin(key, *request, attempt);
}

absl::StatusOr<ReconcileResult> RequestReconciler::Refuse(const ProfileRequest& request,
                                                          const std::string& reason,
                                                          const std::string& message) {
  if (request.status.attempt > 0) TellEnded(request.space);  // Between two attempts.
  RETURN_IF_ERROR(deps_.cluster.WriteStatus(
      request, RefusedStatus(request, reason, message, deps_.clock.WallNow())));
  deps_.cluster.RecordEvent(request, reason != "Cancelled", reason, "Refuse", message);
  deps_.metrics.CaptureEnded(request, reason == "Cancelled" ? "Cancelled" : "Failed");
  return ReconcileResult{Nanos{0}};
}

absl::StatusOr<std::optional<ReconcileResult>> RequestReconciler::HoldBack(
    const std::string& key, const ProfileRequest& request, int number, const Crowd& crowd,
    Nanos max_age) {
  ASSIGN_OR_RETURN(const std::string unknown, deps_.gatekeeper->WhyNotAdmitted(request));
  if (!unknown.empty() || !request.requester) {
    ASSIGN_OR_RETURN(const ReconcileResult refused, Refuse(request, "NotAdmitted", unknown));
    return refused;
  }
  // First what costs the API server nothing: many may wait, and look again and again.
  if (const std::optional<PolicyVerdict> verdict = deps_.gatekeeper->Glance(request, crowd)) {
    ASSIGN_OR_RETURN(const ReconcileResult held, Hold(key, request, crowd, *verdict));
    return held;
  }
  {
    MutexLock lock(&mutex_);
    const Waiting& waiting = WaitingOf(key, request, number);
    if (waiting.judged && deps_.clock.MonoNow() - *waiting.judged <= max_age) return std::nullopt;
  }
  ASSIGN_OR_RETURN(const PolicyVerdict verdict,
                   deps_.gatekeeper->Judge(request, *request.requester, crowd, kJudgeLimit));
  if (verdict.kind == PolicyVerdict::Kind::kRefused) {
    ASSIGN_OR_RETURN(const ReconcileResult refused, Refuse(request, "NotAllowed", verdict.message));
    return refused;
  }
  if (verdict.kind == PolicyVerdict::Kind::kWait) {
    ASSIGN_OR_RETURN(const ReconcileResult held, Hold(key, request, crowd, verdict));
    return held;
  }
  MutexLock lock(&mutex_);
  WaitingOf(key, request, number).judged = deps_.clock.MonoNow();
  return std::nullopt;
}

absl::StatusOr<ReconcileResult> RequestReconciler::Hold(const std::string& key,
                                                        const ProfileRequest& request,
                                                        const Crowd& crowd,
                                                        const PolicyVerdict& verdict) {
  {
    MutexLock lock(&mutex_);
    waiting_[key].held = true;
  }
  RETURN_IF_ERROR(Write(
      request, PendingStatus(request, "WaitingForPolicy", verdict.message, deps_.clock.WallNow())));
  // The end of a capture before it wakes it. Only time itself, and policies that change, do not.
  const Nanos look = Pace(key, request);
  if (crowd.ahead > 0 || !verdict.wait) return ReconcileResult{look};
  return ReconcileResult{std::min<Nanos>(*verdict.wait, std::max(look, kMaxPoll))};
}

absl::StatusOr<ReconcileResult> RequestReconciler::Begin(const std::string& key,
                                                         const ProfileRequest& request,
                                                         int number) {
  {
    MutexLock lock(&mutex_);
    if (retired_) return ReconcileResult{};
  }
  if (deps_.gatekeeper == nullptr) return Launch(key, request, number, {});
  Crowd crowd;
  {
    MutexLock lock(&mutex_);
    // Another attempt joins the end of the line: who waited meanwhile comes first.
    crowd = line_.Try(request.space, key, request.status.retry_time.value_or(request.created));
    WaitingOf(key, request, number).held = false;
  }
  // However it ends: who is counted as one that begins must not stay so.
  const absl::Cleanup settle = [&] {
    std::vector<std::string> woken;
    {
      MutexLock lock(&mutex_);
      const auto live = live_.find(key);
      const auto waiting = waiting_.find(key);
      if (live != live_.end() && live->second->number == number)
        woken = line_.Begin(key);
      else if (waiting != waiting_.end() && waiting->second.held)
        woken = line_.Wait(key);
      else
        woken = line_.Leave(key);
    }
    Enqueue(woken);
  };
  // Taken up again after a restart, a capture has been judged already.
  if (!Resumes(request, number)) {
    ASSIGN_OR_RETURN(const std::optional<ReconcileResult> held,
                     HoldBack(key, request, number, crowd, Nanos::max()));
    if (held) return *held;
  }
  return Launch(key, request, number, crowd);
}

// With the finalizer, from now on: whoever deletes it has its capture cancelled.
absl::StatusOr<std::optional<ProfileRequest>> RequestReconciler::AddFinalizer(
    const std::string& key, const ProfileRequest& request) {
  if (Has(request.finalizers) || request.deleting) return std::optional(request);
  std::vector<std::string> finalizers = request.finalizers;
  finalizers.push_back(kFinalizer);
  RETURN_IF_ERROR(deps_.cluster.SetFinalizers(request, finalizers));
  // As our write left it.
  ASSIGN_OR_RETURN(ProfileRequest held, deps_.cluster.GetRequest(key));
  if (held.uid != request.uid || held.deleting || !Has(held.finalizers))
    return std::optional<ProfileRequest>();
  return std::optional(std::move(held));
}

absl::StatusOr<Selection> RequestReconciler::Select(const ProfileRequest& request,
                                                    const PodQuery& query, bool patient) {
  std::optional<JobShape> shape;
  if (request.target.job && query.names.empty()) {
    absl::StatusOr<JobShape> described =
        deps_.cluster.DescribeJob(request.space, *request.target.job);
    if (!described.ok() && patient) return described.status();
    shape =
        described.ok()
            ? *std::move(described)
            : JobShape{.unknown = StrCat("the job could not be read: ", Words(described.status()))};
  }
  ASSIGN_OR_RETURN(const std::vector<PodInfo> pods, deps_.cluster.ListPods(request.space, query));
  return SelectTargets(request.target, query, pods, shape ? &*shape : nullptr);
}

absl::StatusOr<std::optional<ReconcileResult>> RequestReconciler::AwaitTargets(
    const std::string& key, const ProfileRequest& request, int number, const Selection& selection,
    std::size_t wanted) {
  const std::size_t usable = selection.usable();
  if (usable > 0 && (usable >= wanted || Resumes(request, number))) return std::nullopt;
  const MonoTime now = deps_.clock.MonoNow();
  Nanos patience = request.capture.ready_timeout;
  if (usable == 0) patience = std::max(patience, kTargetPatience);
  Nanos left{};
  {
    MutexLock lock(&mutex_);
    Waiting& waiting = WaitingOf(key, request, number);
    if (selection.suspended) waiting.since = now;
    left = waiting.since + patience - now;
  }
  const auto first = std::find_if(selection.targets.begin(), selection.targets.end(),
                                  [](const Target& t) { return t.outcome != Outcome::kUnknown; });
  std::string reason = "WaitingForPods", message = CountWords(selection);
  if (selection.suspended) {
    reason = "JobSuspended";
    message = StrCat("the job is suspended; ", message);
  } else if (selection.present == 0) {
    reason = "NoTargets";
    if (selection.expected.value_or(0) == 0) message = "no pod matches the target";
  } else if (usable == 0) {
    reason = std::string(Name(first->outcome));
    message = StrCat("none of ", selection.present, " pods can take part; ", first->name, ": ",
                     first->message, ". ", Describe(first->outcome).remedy);
  } else if (first != selection.targets.end()) {
    message += StrCat("; ", first->name, ": ", first->message);
  }
  const bool hopeless = selection.expected && usable > 0 && usable + selection.may_come() < wanted;
  if (selection.suspended || (left > Nanos{0} && !hopeless)) {
    RETURN_IF_ERROR(Write(request, PendingStatus(request, reason, message, deps_.clock.WallNow())));
    const Nanos look = Pace(key, request);
    return ReconcileResult{selection.suspended ? look : std::min(look, left)};
  }
  if (usable > 0) return std::nullopt;  // Those who are missing end the attempt, by their outcomes.
  ASSIGN_OR_RETURN(const ReconcileResult refused, Refuse(request, reason, message));
  return refused;
}

absl::StatusOr<ReconcileResult> RequestReconciler::Launch(const std::string& key,
                                                          const ProfileRequest& request, int number,
                                                          const Crowd& crowd) {
  const absl::StatusOr<PodQuery> query = QueryFor(request.target);
  if (!query.ok()) return Refuse(request, "UnknownJobKind", Words(query.status()));
  const bool resumes = Resumes(request, number);
  bool patient = false;
  {
    MutexLock lock(&mutex_);
    const Nanos waited = deps_.clock.MonoNow() - WaitingOf(key, request, number).since;
    patient = !resumes && waited < kTargetPatience;
  }
  absl::StatusOr<Selection> selection = Select(request, *query, patient);
  if (absl::IsInvalidArgument(selection.status()))
    return Refuse(request, "InvalidTarget", Words(selection.status()));
  if (absl::IsPermissionDenied(selection.status())) {
    RETURN_IF_ERROR(
        Write(request, PendingStatus(request, "CannotListPods", Words(selection.status()),
                                     deps_.clock.WallNow())));
    return ReconcileResult{std::max(Pace(key, request), kTargetPatience)};
  }
  RETURN_IF_ERROR(selection.status());
  std::vector<Target>& targets = selection->targets;
  CaptureSpec spec = request.capture;
  const absl::StatusOr<std::size_t> least = ResolveMinWorkers(request.min_workers, targets.size());
  if (!least.ok())
    return Refuse(request, "InvalidMinWorkers", StrCat("minWorkers: ", Words(least.status())));
  spec.min_workers = *least;
  spec.workers_note = CountWords(*selection);
  spec.expected_workers = selection->expected;
  ASSIGN_OR_RETURN(const std::optional<ReconcileResult> waits,
                   AwaitTargets(key, request, number, *selection, *least));
  if (waits) {
    LeaveQueue(key);  // Whoever comes behind it may want only workers that are there.
    return *waits;
  }
  ASSIGN_OR_RETURN(const std::optional<ReconcileResult> queued,
                   Queue(key, request, targets, resumes));
  if (queued) return *queued;
  if (deps_.gatekeeper != nullptr && !resumes) {
    ASSIGN_OR_RETURN(const std::optional<ReconcileResult> held,
                     HoldBack(key, request, number, crowd, kVerdictAge));
    if (held) {
      LeaveQueue(key);
      return *held;
    }
  }

  auto live = std::make_shared<Live>();
  live->uid = request.uid;
  live->number = number;
  live->began = deps_.clock.WallNow();
  live->targets = targets;
  live->told = deps_.clock.MonoNow();
  live->spec = std::move(spec);
  ASSIGN_OR_RETURN(const std::optional<ProfileRequest> held, AddFinalizer(key, request));
  if (!held) return ReconcileResult{Nanos{0}};
  // Before anybody is armed the attempt's number is safe in the status: whoever comes after us
  // looks for just this capture at the sidecars instead of starting another.
  AttemptProgress preflight;
  preflight.matched = targets.size();
  preflight.workers_note = live->spec.workers_note;
  preflight.expected_workers = live->spec.expected_workers;
  RETURN_IF_ERROR(Write(*held, ActiveStatus(*held, number, preflight, live->began)));
  live->attempt =
      CaptureAttempt::Start({deps_.clock, deps_.executor, deps_.workers, true}, live->spec, number,
                            std::move(targets), [enqueue = deps_.enqueue, key] { enqueue(key); });
  Keep(key, live);
  return ReconcileResult{};
}

// Once per attempt.
void RequestReconciler::TellArmed(const ProfileRequest& request, std::size_t armed,
                                  std::size_t matched, int attempt) {
  const Condition* started = FindCondition(request.status, "Started");
  if (armed == 0 || (started != nullptr && started->status == ConditionStatus::kTrue)) return;
  deps_.cluster.RecordEvent(request, false, "CaptureArmed", "Arm",
                            StrCat(armed, " of ", matched, " workers armed, attempt ", attempt));
}

absl::StatusOr<ReconcileResult> RequestReconciler::Follow(const std::string& key,
                                                          const ProfileRequest& request,
                                                          const std::shared_ptr<Live>& live) {
  if (request.cancel) live->attempt->Cancel("spec.cancel was set");
  const AttemptProgress progress = live->attempt->progress();
  const WallTime now = deps_.clock.WallNow();
  if (progress.phase != Phase::kDone) {
    // What cannot be had is not waited for.
    if (progress.wants_evidence)
      live->attempt->TellEvidence(
          EvidenceOf(request, *live).value_or(std::map<std::string, std::string>()));
    // A short capture's phases would be gone before anybody could read them.
    if (const Nanos since = deps_.clock.MonoNow() - live->told; since < kStatusPace)
      return ReconcileResult{kStatusPace - since};
    RETURN_IF_ERROR(Write(request, ActiveStatus(request, live->number, progress, now)));
    live->told = deps_.clock.MonoNow();
    if (progress.phase >= Phase::kDelay)
      TellArmed(request, progress.armed, progress.matched, live->number);
    return ReconcileResult{};
  }
  const AttemptResult& result = *progress.result;
  if (!live->counted) {
    live->counted = true;
    LeaveQueue(key);
    TellArmed(request, result.armed, result.workers.size(), result.attempt);
    deps_.metrics.AttemptEnded(request, progress);
    if (const std::optional<Nanos> wait =
            request.cancel ? std::nullopt : RetryAfter(live->spec, result)) {
      live->retry = now + *wait;
      deps_.cluster.RecordEvent(request, true, "AttemptFailed", "Retry",
                                StrCat("attempt ", result.attempt, ": ", result.message));
    }
  }
  if (live->retry) {
    if (request.cancel) return Refuse(request, "Cancelled", "cancelled between two attempts");
    // Whole seconds, as the status keeps it.
    const WallTime due = std::chrono::ceil<seconds>(*live->retry);
    if (now < due) {
      RETURN_IF_ERROR(Write(request, RetryStatus(request, result, due, now)));
      return ReconcileResult{due - now};
    }
    return Begin(key, request, live->number + 1);
  }
  // First: who sees the end may delete the request at once.
  TellEnded(request.space);
  RETURN_IF_ERROR(Write(request, FinishedStatus(request, result, now)));
  deps_.cluster.RecordEvent(request, !result.succeeded,
                            result.succeeded   ? "CaptureSucceeded"
                            : result.cancelled ? "CaptureCancelled"
                                               : "CaptureFailed",
                            "Finish", StrCat(result.message, "; ", result.sync_message));
  deps_.metrics.CaptureEnded(request, result.succeeded   ? "Succeeded"
                                      : result.cancelled ? "Cancelled"
                                                         : "Failed");
  // What a finished request still needs follows from what was written just now.
  return ReconcileResult{Nanos{0}};
}

void RequestReconciler::GiveUp(const std::string& key, const Live& live, const std::string& why) {
  live.attempt->Cancel(why);
  TellEnded(key.substr(0, key.find('/')));
}

void RequestReconciler::TellEnded(const std::string& space) {
  if (deps_.gatekeeper != nullptr) deps_.gatekeeper->CaptureEnded(space, deps_.clock.WallNow());
}

absl::StatusOr<ReconcileResult> RequestReconciler::Expire(const ProfileRequest& request) {
  if (!request.ttl) return ReconcileResult{};
  const WallTime end = request.status.completion_time.value_or(deps_.clock.WallNow());
  const Nanos left = end + *request.ttl - deps_.clock.WallNow();
  if (left > Nanos{0}) return ReconcileResult{left};
  RETURN_IF_ERROR(deps_.cluster.DeleteRequest(request));
  return ReconcileResult{};
}

absl::StatusOr<ReconcileResult> RequestReconciler::CleanUp(const std::string& key,
                                                           const ProfileRequest& request) {
  // Beyond it the finalizer goes whatever remains, or nobody could ever delete the namespace.
  const bool patient = deps_.clock.WallNow() < request.deleted + kCleanUpPatience;
  if (const std::shared_ptr<Live> live = Find(key)) {
    live->attempt->Cancel("the request is being deleted");
    // A capture that has just been told to end writes its last objects before they are reclaimed.
    const bool done = live->attempt->progress().phase == Phase::kDone;
    if (!done && patient) return ReconcileResult{milliseconds(100)};
    if (done && !live->counted) {
      live->counted = true;
      deps_.metrics.AttemptEnded(request, live->attempt->progress());
      deps_.metrics.CaptureEnded(request, "Cancelled");
      TellEnded(request.space);
    }
  } else if (request.invalid.empty() && Has(request.finalizers) && request.status.attempt > 0 &&
             !IsFinished(request.status) && !request.status.retry_time) {
    // An operator before us armed it: find it again, to cancel it.
    const absl::Status begun = Begin(key, request, request.status.attempt).status();
    if (Find(key) != nullptr) return ReconcileResult{milliseconds(100)};
    if (MayPass(begun) && patient) return begun;
    if (!begun.ok()) {
      deps_.cluster.RecordEvent(
          request, true, "CancelFailed", "Cancel",
          StrCat("its capture was not found again to be cancelled and ends by itself: ",
                 Words(begun)));
    }
  } else if (request.status.attempt > 0 && !IsFinished(request.status)) {
    TellEnded(request.space);  // Between two attempts.
  }
  if (!Has(request.finalizers)) return ReconcileResult{};
  // A capture that was never begun wrote nothing, and one that was begun had been admitted.
  if (request.reclaim && request.invalid.empty() && request.status.attempt > 0) {
    absl::StatusOr<std::optional<ReconcileResult>> busy = Reclaim(key, request);
    if (busy.ok() && *busy) return **busy;
    if (MayPass(busy.status()) && patient) return busy.status();
    if (!busy.ok()) {
      deps_.cluster.RecordEvent(
          request, true, "ReclaimFailed", "Reclaim",
          StrCat("objects remain in ", request.capture.logdir, " below plugins/profile/",
                 request.capture.run, ": ", Words(busy.status())));
    }
  }
  RETURN_IF_ERROR(deps_.cluster.SetFinalizers(request, WithoutOurs(request.finalizers)));
  Forget(key);
  return ReconcileResult{};
}

// An error that cannot pass is the last word of it.
absl::StatusOr<std::optional<ReconcileResult>> RequestReconciler::Reclaim(
    const std::string& key, const ProfileRequest& request) {
  std::shared_ptr<RunReclaim> reclaim;
  {
    MutexLock lock(&mutex_);
    const auto found = reclaims_.find(key);
    if (found != reclaims_.end() && found->second.uid == request.uid)
      reclaim = found->second.reclaim;
  }
  if (reclaim == nullptr) {
    ASSIGN_OR_RETURN(const PodQuery query, QueryFor(request.target));
    ASSIGN_OR_RETURN(const std::vector<PodInfo> pods, deps_.cluster.ListPods(request.space, query));
    std::vector<v1::ReclaimRequest> runs;
    for (int attempt = 1; attempt <= request.status.attempt; ++attempt) {
      v1::ReclaimRequest& run = runs.emplace_back();
      // Sidecars delete what carries this id: whatever run the request names, it is only its own.
      run.set_capture_id(CaptureId(request.capture, attempt));
      run.set_logdir(request.capture.logdir);
      run.set_run(RunOfAttempt(request.capture.run, attempt));
    }
    // Whichever of its pods are left, of however many there were.
    TargetSpec any = request.target;
    any.sample = false;
    any.container.clear();
    reclaim = RunReclaim::Start({deps_.clock, deps_.executor, deps_.workers},
                                SelectTargets(any, query, pods).targets, std::move(runs),
                                [enqueue = deps_.enqueue, key] { enqueue(key); });
    MutexLock lock(&mutex_);
    reclaims_[key] = {request.uid, reclaim};
  }
  const std::optional<absl::Status> result = reclaim->result();
  if (!result) return ReconcileResult{kReclaimLook};
  // It has tried whoever there was, as long as it might.
  if (!result->ok()) return absl::FailedPreconditionError(result->message());
  return std::nullopt;
}

}  // namespace strobe
