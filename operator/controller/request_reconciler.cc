#include "operator/controller/request_reconciler.h"

#include <algorithm>

#include "collector/base/duration.h"
#include "collector/base/log.h"
#include "collector/base/status_macros.h"
#include "collector/base/strings.h"
#include "collector/logdir/logdir.h"
#include "operator/core/min_workers.h"
#include "operator/core/pod_evidence.h"
#include "operator/core/request_status.h"
#include "operator/core/retry.h"

namespace strobe {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Pods of a job that is just being created deserve a little patience.
constexpr Nanos kTargetPatience = seconds(30);
constexpr Nanos kTargetRetry = seconds(2);
constexpr Nanos kStatusPace = milliseconds(300);   // Of a capture that is under way.
constexpr Nanos kPlaceRefresh = milliseconds(50);  // Times those who wait: bounds the writes.
constexpr Nanos kPolicyRetry = seconds(5);
constexpr Nanos kReclaimTimeout = seconds(10);

bool Has(const std::vector<std::string>& finalizers) {
  return std::find(finalizers.begin(), finalizers.end(), kFinalizer) != finalizers.end();
}

std::vector<std::string> WithoutOurs(std::vector<std::string> finalizers) {
  std::erase(finalizers, kFinalizer);
  return finalizers;
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
  deps_.metrics.ActiveCaptures(live_.size());
}

void RequestReconciler::Forget(const std::string& key) {
  {
    MutexLock lock(&mutex_);
    live_.erase(key);
    deps_.metrics.ActiveCaptures(live_.size());
  }
  LeaveQueue(key);
}

void RequestReconciler::LeaveQueue(const std::string& key) {
  std::vector<std::string> next;
  {
    MutexLock lock(&mutex_);
    next = queue_.Leave(key);
  }
  for (const std::string& other : next) deps_.enqueue(other);
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
    const std::string& key, const ProfileRequest& request) {
  ASSIGN_OR_RETURN(const std::string unknown, deps_.gatekeeper->WhyNotAdmitted(request));
  if (!unknown.empty() || !request.requester) {
    ASSIGN_OR_RETURN(const ReconcileResult refused, Refuse(request, "NotAdmitted", unknown));
    return refused;
  }
  int active = 0;
  {
    MutexLock lock(&mutex_);
    const std::string prefix = request.space + "/";
    for (const auto& [other, live] : live_)
      active += other != key && other.starts_with(prefix) ? 1 : 0;
    // Those that are just beginning count, and of two at once one at least sees the other. This one
    // stands there too.
    active += static_cast<int>(starting_.count(request.space)) - 1;
  }
  ASSIGN_OR_RETURN(const PolicyVerdict verdict,
                   deps_.gatekeeper->Judge(request, *request.requester, active));
  if (verdict.kind == PolicyVerdict::Kind::kAllowed) return std::nullopt;
  if (verdict.kind == PolicyVerdict::Kind::kRefused) {
    ASSIGN_OR_RETURN(const ReconcileResult refused, Refuse(request, "NotAllowed", verdict.message));
    return refused;
  }
  RETURN_IF_ERROR(Write(
      request, PendingStatus(request, "WaitingForPolicy", verdict.message, deps_.clock.WallNow())));
  return ReconcileResult{std::min(verdict.wait.value_or(kPolicyRetry), kPolicyRetry)};
}

absl::StatusOr<ReconcileResult> RequestReconciler::Begin(const std::string& key,
                                                         const ProfileRequest& request,
                                                         int number) {
  {
    MutexLock lock(&mutex_);
    if (retired_) return ReconcileResult{};
  }
  // Taken up again after a restart, a capture has been judged already.
  if (deps_.gatekeeper == nullptr || Resumes(request, number)) return Launch(key, request, number);
  const Starting starting(*this, request.space);
  ASSIGN_OR_RETURN(const std::optional<ReconcileResult> held, HoldBack(key, request));
  return held ? *held : Launch(key, request, number);
}

// With the finalizer, from now on: whoever deletes it has its capture cancelled.
absl::StatusOr<std::optional<ProfileRequest>> RequestReconciler::Hold(
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

absl::StatusOr<ReconcileResult> RequestReconciler::Launch(const std::string& key,
                                                          const ProfileRequest& request,
                                                          int number) {
  const absl::StatusOr<PodQuery> query = QueryFor(request.target);
  if (!query.ok()) return Refuse(request, "UnknownJobKind", Words(query.status()));
  ASSIGN_OR_RETURN(const std::vector<PodInfo> pods, deps_.cluster.ListPods(request.space, *query));
  std::vector<Target> targets = SelectTargets(request.target, *query, pods);
  const bool usable = std::any_of(targets.begin(), targets.end(),
                                  [](const Target& t) { return t.outcome == Outcome::kUnknown; });
  const WallTime now = deps_.clock.WallNow();
  if (!usable) {
    const std::string reason =
        targets.empty() ? "NoTargets" : std::string(Name(targets.front().outcome));
    const std::string message =
        targets.empty()
            ? "no pod matches the target"
            : StrCat("none of ", targets.size(), " pods can take part; ", targets.front().name,
                     ": ", targets.front().message, ". ", Describe(targets.front().outcome).remedy);
    if (now > request.created + kTargetPatience) return Refuse(request, reason, message);
    RETURN_IF_ERROR(Write(request, PendingStatus(request, reason, message, now)));
    return ReconcileResult{kTargetRetry};
  }
  CaptureSpec spec = request.capture;
  const absl::StatusOr<std::size_t> least = ResolveMinWorkers(request.min_workers, targets.size());
  if (!least.ok())
    return Refuse(request, "InvalidMinWorkers", StrCat("minWorkers: ", Words(least.status())));
  spec.min_workers = *least;

  const bool resumes = Resumes(request, number);
  ASSIGN_OR_RETURN(const std::optional<ReconcileResult> queued,
                   Queue(key, request, targets, resumes));
  if (queued) return *queued;

  auto live = std::make_shared<Live>();
  live->uid = request.uid;
  live->number = number;
  live->began = now;
  live->targets = targets;
  live->told = deps_.clock.MonoNow();
  live->spec = std::move(spec);
  ASSIGN_OR_RETURN(const std::optional<ProfileRequest> held, Hold(key, request));
  if (!held) return ReconcileResult{Nanos{0}};
  // Before anybody is armed the attempt's number is safe in the status: whoever comes after us
  // looks for just this capture at the sidecars instead of starting another.
  AttemptProgress preflight;
  preflight.matched = targets.size();
  RETURN_IF_ERROR(Write(*held, ActiveStatus(*held, number, preflight, now)));
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
  if (deps_.gatekeeper != nullptr)
    deps_.gatekeeper->CaptureEnded(space, deps_.clock.WallNow());
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
  if (const std::shared_ptr<Live> live = Find(key)) {
    live->attempt->Cancel("the request is being deleted");
    // A capture that has just been told to end writes its last objects before they are reclaimed.
    if (live->attempt->progress().phase != Phase::kDone) return ReconcileResult{milliseconds(100)};
    if (!live->counted) {
      live->counted = true;
      deps_.metrics.AttemptEnded(request, live->attempt->progress());
      deps_.metrics.CaptureEnded(request, "Cancelled");
      TellEnded(request.space);
    }
  } else if (request.invalid.empty() && Has(request.finalizers) && request.status.attempt > 0 &&
             !IsFinished(request.status) && !request.status.retry_time) {
    // An operator before us armed it: find it again, to cancel it.
    absl::StatusOr<ReconcileResult> begun = Begin(key, request, request.status.attempt);
    if (begun.ok() && Find(key) != nullptr) return ReconcileResult{milliseconds(100)};
  } else if (request.status.attempt > 0 && !IsFinished(request.status)) {
    TellEnded(request.space);  // Between two attempts.
  }
  if (!Has(request.finalizers)) return ReconcileResult{};
  // A capture that was never begun wrote nothing, and one that was begun had been admitted.
  if (request.reclaim && request.invalid.empty() && request.status.attempt > 0) {
    if (const absl::Status status = Reclaim(request); !status.ok()) {
      deps_.cluster.RecordEvent(
          request, true, "ReclaimFailed", "Reclaim",
          StrCat("objects remain in ", request.capture.logdir, " below plugins/profile/",
                 request.capture.run, ": ", Words(status)));
    }
  }
  RETURN_IF_ERROR(deps_.cluster.SetFinalizers(request, WithoutOurs(request.finalizers)));
  Forget(key);
  return ReconcileResult{};
}

// Through any sidecar of the request's own pods, because the operator holds no storage identity.
absl::Status RequestReconciler::Reclaim(const ProfileRequest& request) {
  ASSIGN_OR_RETURN(const PodQuery query, QueryFor(request.target));
  ASSIGN_OR_RETURN(const std::vector<PodInfo> pods, deps_.cluster.ListPods(request.space, query));
  absl::Status status = absl::UnavailableError("no sidecar of its pods is left to delete them");
  for (const Target& target : SelectTargets(request.target, query, pods)) {
    if (target.outcome != Outcome::kUnknown) continue;
    const std::shared_ptr<Worker> worker = deps_.workers.Connect(target);
    status = absl::OkStatus();
    for (int attempt = 1; attempt <= request.status.attempt && status.ok(); ++attempt) {
      v1::ReclaimRequest reclaim;
      // Sidecars delete what carries this id: whatever run the request names, it is only its own.
      reclaim.set_capture_id(CaptureId(request.capture, attempt));
      reclaim.set_logdir(request.capture.logdir);
      reclaim.set_run(RunOfAttempt(request.capture.run, attempt));
      struct Answer {
        Notification come;
        absl::Status status;
      };
      auto answer = std::make_shared<Answer>();
      worker->Reclaim(reclaim, kReclaimTimeout,
                      [answer](absl::StatusOr<v1::ReclaimResponse> response) {
                        answer->status = response.status();
                        answer->come.Notify();
                      });
      answer->come.Wait();  // Comes by its timeout.
      status = answer->status;
    }
    if (status.ok()) return status;
  }
  return status;
}

}  // namespace strobe
