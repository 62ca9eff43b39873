#include "operator/request/request_reconciler.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "capture/attempt_result.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/protocol/outcome.h"
#include "operator/job/pod_evidence.h"
#include "operator/request/request_status.h"
#include "operator/request/target_pods.h"

namespace strobe::request {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Nanos kStatusPace = milliseconds(300);  // Between two writes of an active status.
// The pause between two writes that change only what single workers do: the first time, or the
// second times the number of captures if that is longer. So all captures together write at most
// five times a second.
constexpr Nanos kWorkersPace = seconds(1), kWorkersPaceOfMany = milliseconds(200);

// Whether the next attempt is due, which should begin in `left`. A time that is further away than
// any wait was written by a clock that was ahead.
bool IsDue(Nanos left) { return left <= Nanos{0} || left > capture::kMaxRetryWait + kClocksDiffer; }

}  // namespace

Reconciler::Reconciler(Dependencies dependencies)
    : deps_(std::move(dependencies)),
      table_(deps_.clock, deps_.metrics, deps_.enqueue),
      end_(deps_),
      launcher_(deps_, table_, end_),
      cleanup_(deps_, table_,
               [this](const std::string& key, const objects::ProfileRequest& request) {
                 return launcher_.Begin(key, request, request.status.attempt).status();
               }),
      stalls_(deps_) {}

absl::StatusOr<kube::ReconcileResult> Reconciler::Reconcile(const std::string& key) {
  const absl::StatusOr<objects::ProfileRequest> found = deps_.cluster.GetRequest(key);
  std::shared_ptr<LiveCapture> live = table_.Find(key);
  if (absl::IsNotFound(found.status())) {
    cleanup_.AfterDeletion(key, live.get());
    stalls_.Forget(key);
    return kube::ReconcileResult{};
  }
  RETURN_IF_ERROR(found.status());
  const objects::ProfileRequest& request = *found;
  if (live != nullptr && live->uid != request.uid) {  // Deleted and created again.
    cleanup_.AfterDeletion(key, live.get());
    live = nullptr;
  }
  if (request.deleting) return cleanup_.BeforeDeletion(key, request);
  if (objects::IsFinished(request.status)) {
    if (live != nullptr) end_.TellIfUntold(request, *live);
    return AfterEnd(key, request);
  }
  if (live != nullptr) return Follow(key, request, *live);
  if (!request.invalid.empty()) return end_.Refuse(request, "InvalidSpec", request.invalid);
  if (request.cancel && request.status.attempt == 0)
    return end_.Cancelled(request, "cancelled before it began");
  if (!request.status.retry_time)
    return launcher_.Begin(key, request, std::max(request.status.attempt, 1));
  // Attempt `status.attempt` has ended, and the next one is due at the retry time.
  if (request.cancel) return end_.Cancelled(request, "cancelled between two attempts");
  const Nanos left = *request.status.retry_time - deps_.clock.WallNow();
  if (!IsDue(left)) return kube::ReconcileResult{left};
  return launcher_.Begin(key, request, std::max(request.status.attempt, 1) + 1);
}

absl::StatusOr<kube::ReconcileResult> Reconciler::AfterEnd(const std::string& key,
                                                           const objects::ProfileRequest& request) {
  ASSIGN_OR_RETURN(const kube::ReconcileResult rest, cleanup_.AfterEnd(key, request));
  // At once: the object was changed, and must be read again before its status is written.
  if (rest.requeue_after == Nanos{0}) return rest;
  ASSIGN_OR_RETURN(const std::optional<Nanos> look, stalls_.Look(key, request));
  return kube::ReconcileResult{Sooner(rest.requeue_after, look)};
}

absl::StatusOr<kube::ReconcileResult> Reconciler::Follow(const std::string& key,
                                                         const objects::ProfileRequest& request,
                                                         LiveCapture& live) {
  if (request.cancel) live.attempt->Cancel("spec.cancel was set");
  const capture::AttemptProgress progress = live.attempt->progress();
  if (progress.phase != capture::Phase::kDone) return ShowProgress(request, progress, live);
  if (!live.counted) CountEnd(key, request, progress, live);
  const capture::AttemptResult& result = *progress.result;
  if (!live.retry) return end_.Finish(request, result, live);
  if (request.cancel) return end_.Cancelled(request, "cancelled between two attempts");
  const WallTime now = deps_.clock.WallNow();
  const WallTime due = std::chrono::ceil<seconds>(*live.retry);  // As precise as the status.
  const Nanos left = due - now;
  // The next attempt replaces the status, which must have what this one recorded.
  const bool written = request.status.retry_time && request.status.attempt == live.number;
  if (written && IsDue(left)) return launcher_.Begin(key, request, live.number + 1);
  RETURN_IF_ERROR(WriteIfChanged(deps_.cluster, request, RetryStatus(request, result, due, now)));
  return kube::ReconcileResult{std::max(left, Nanos{0})};
}

absl::StatusOr<kube::ReconcileResult> Reconciler::ShowProgress(
    const objects::ProfileRequest& request, const capture::AttemptProgress& progress,
    LiveCapture& live) {
  if (progress.wants_evidence) {
    // Without an answer from the API server the attempt goes on with no evidence.
    live.attempt->TellEvidence(
        EvidenceOf(request, live).value_or(std::map<std::string, std::string>()));
  }
  // The phases of a short capture follow each other faster than anybody can read them. Only the
  // first report that workers are armed is written at once, because scripts and people wait for it.
  const bool armed = progress.phase >= capture::Phase::kDelay && progress.armed > 0;
  const objects::RequestStatus status =
      ActiveStatus(request, live.number, progress, deps_.clock.WallNow());
  if (!SameStatus(request.status, status)) {
    const Nanos pace = armed && !live.told_armed ? Nanos{0} : PaceOf(request.status, status);
    if (const Nanos since = deps_.clock.MonoNow() - live.written_at; since < pace)
      return kube::ReconcileResult{pace - since};
    RETURN_IF_ERROR(deps_.cluster.WriteStatus(request, status));
    live.written_at = deps_.clock.MonoNow();
  }
  if (progress.stall != nullptr) end_.TellStall(request, *progress.stall, live);
  live.told_armed = armed;
  if (progress.phase >= capture::Phase::kDelay)
    TellArmed(request, progress.armed, progress.matched, live.number);
  return kube::ReconcileResult{};
}

// How long after the former write of an active status the next one may follow.
Nanos Reconciler::PaceOf(const objects::RequestStatus& former,
                         objects::RequestStatus status) const {
  status.progress = former.progress;
  if (!SameStatus(former, status)) return kStatusPace;
  return std::max<Nanos>(kWorkersPace, kWorkersPaceOfMany * table_.active());
}

void Reconciler::CountEnd(const std::string& key, const objects::ProfileRequest& request,
                          const capture::AttemptProgress& progress, LiveCapture& live) {
  const capture::AttemptResult& result = *progress.result;
  live.counted = true;
  table_.LeaveQueue(key);
  TellArmed(request, result.armed, result.workers.size(), result.attempt);
  deps_.CountAttempt(request, progress);
  if (request.cancel) return;
  const std::optional<Nanos> wait = capture::RetryAfter(live.spec, result);
  if (!wait) return;
  live.retry = deps_.clock.WallNow() + *wait;
  deps_.cluster.RecordEvent(request, /*warning=*/true, "AttemptFailed", "Retry",
                            StrCat("attempt ", result.attempt, ": ", result.message));
}

absl::StatusOr<std::map<std::string, std::string>> Reconciler::EvidenceOf(
    const objects::ProfileRequest& request, const LiveCapture& live) {
  std::vector<job::PodInfo> pods;
  for (const job::TargetSpec& target : objects::TargetsOf(request)) {
    ASSIGN_OR_RETURN(TargetPods found, FindPodsOnly(deps_.cluster, request.ns, target));
    pods.insert(pods.end(), std::make_move_iterator(found.pods.begin()),
                std::make_move_iterator(found.pods.end()));
  }
  return job::EvidenceByTarget(live.targets, pods, live.began);
}

// Records the event once per attempt: the status remembers it.
void Reconciler::TellArmed(const objects::ProfileRequest& request, std::size_t armed,
                           std::size_t matched, int number) {
  const kube::Condition* started = objects::FindCondition(request.status, condition::kStarted);
  if (armed == 0 || (started != nullptr && started->status == kube::ConditionStatus::kTrue)) return;
  deps_.cluster.RecordEvent(request, /*warning=*/false, "CaptureArmed", "Arm",
                            StrCat(armed, " of ", matched, " workers armed, attempt ", number));
}

}  // namespace strobe::request
