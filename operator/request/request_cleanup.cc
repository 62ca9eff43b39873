#include "operator/request/request_cleanup.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "collector/store/logdir.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "operator/base/names.h"
#include "operator/kube/object_cache.h"
#include "operator/objects/request.h"
#include "operator/request/target_pods.h"

namespace strobe::request {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Nanos kCancelLook = milliseconds(100);  // How often a cancelled capture is looked at.
constexpr Nanos kReclaimLook = seconds(10);       // A safety net: the end of a reclaim wakes us.
// How long a deletion waits for obstacles that may pass: an API server that does not answer, a
// sidecar that cannot be reached.
constexpr Nanos kCleanUpPatience = std::chrono::minutes(5);

// Whether another try may succeed.
bool MayPass(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsResourceExhausted(status) || absl::IsAborted(status) || absl::IsUnknown(status) ||
         absl::IsInternal(status) || absl::IsDataLoss(status);
}

// Whether there may be runs to delete: an attempt that never began wrote nothing, and one that
// began had been admitted.
bool WantsReclaim(const objects::ProfileRequest& request) {
  return request.reclaim && request.status.attempt > 0;
}

// The sidecars of other jobs in the request's namespace. They delete only what carries the
// capture's id, and what a directory holds only the job's own pods can see.
absl::StatusOr<std::vector<capture::Target>> OtherSidecars(Cluster& cluster,
                                                           const objects::ProfileRequest& request) {
  const absl::StatusOr<storage::Logdir> logdir = storage::Logdir::Parse(request.capture.logdir);
  if (!logdir.ok() || logdir->scheme() == "file") return std::vector<capture::Target>();
  job::TargetSpec injected;
  injected.selector = StrCat(kube::kInjectedLabel, "=true");
  ASSIGN_OR_RETURN(const TargetPods found, FindPodsOnly(cluster, request.ns, injected));
  return job::SelectTargets(injected, found.query, found.pods).targets;
}

}  // namespace

absl::StatusOr<kube::ReconcileResult> Cleanup::AfterEnd(const std::string& key,
                                                        const objects::ProfileRequest& request) {
  Forget(key);
  // Without the finalizer users can delete finished requests even after Strobe was removed.
  if (HasFinalizer(request) && !WantsReclaim(request)) {
    RETURN_IF_ERROR(deps_.cluster.SetFinalizers(request, WithoutFinalizer(request)));
    return kube::ReconcileResult{Nanos{0}};
  }
  return Expire(request);
}

absl::StatusOr<kube::ReconcileResult> Cleanup::Expire(const objects::ProfileRequest& request) {
  if (!request.ttl) return kube::ReconcileResult{};
  const WallTime now = deps_.clock.WallNow();
  const Nanos left = request.status.completion_time.value_or(now) + *request.ttl - now;
  if (left > Nanos{0}) return kube::ReconcileResult{left};
  RETURN_IF_ERROR(deps_.cluster.DeleteRequest(request));
  return kube::ReconcileResult{};
}

absl::StatusOr<kube::ReconcileResult> Cleanup::BeforeDeletion(
    const std::string& key, const objects::ProfileRequest& request) {
  // Without this limit a request could keep its namespace from ever being deleted.
  const bool patient = deps_.clock.WallNow() < request.deleted + kCleanUpPatience;
  ASSIGN_OR_RETURN(const std::optional<kube::ReconcileResult> stopping,
                   StopCapture(key, request, patient));
  if (stopping) return *stopping;
  if (!HasFinalizer(request)) return kube::ReconcileResult{};
  if (WantsReclaim(request) && request.invalid.empty()) {
    const absl::StatusOr<std::optional<kube::ReconcileResult>> busy = Reclaim(key, request);
    if (busy.ok() && *busy) return **busy;
    if (MayPass(busy.status()) && patient) return busy.status();
    if (!busy.ok()) {
      deps_.cluster.RecordEvent(
          request, /*warning=*/true, "ReclaimFailed", "Reclaim",
          StrCat("objects remain in ", request.capture.logdir, " below plugins/profile/",
                 request.capture.run, ": ", MessageOf(busy.status())));
    }
  }
  RETURN_IF_ERROR(deps_.cluster.SetFinalizers(request, WithoutFinalizer(request)));
  Forget(key);
  return kube::ReconcileResult{};
}

// None: no capture of the request is under way any more, or it was given up.
absl::StatusOr<std::optional<kube::ReconcileResult>> Cleanup::StopCapture(
    const std::string& key, const objects::ProfileRequest& request, bool patient) {
  const bool begun = request.status.attempt > 0 && !objects::IsFinished(request.status);
  if (const std::shared_ptr<LiveCapture> live = table_.Find(key)) {
    live->attempt->Cancel("the request is being deleted");
    const capture::AttemptProgress progress = live->attempt->progress();
    const bool done = progress.phase == capture::Phase::kDone;
    // A capture that has just been cancelled still writes its last objects; reclaiming them must
    // come after that.
    if (!done && patient) return kube::ReconcileResult{kCancelLook};
    // It ended, or waited for its next attempt, which will not come.
    const bool waited = live->retry && !objects::IsFinished(request.status);
    if (done && (!live->counted || waited)) {
      if (!live->counted) deps_.CountAttempt(request, progress);
      live->counted = true;
      live->retry.reset();
      deps_.CountEnd(request, CaptureEnd::kCancelled);
      deps_.TellEnded(request.ns, request.capture);
    }
  } else if (begun && request.invalid.empty() && HasFinalizer(request) &&
             !request.status.retry_time) {
    // The previous leader armed its workers: the capture must be found again to be cancelled.
    const absl::Status resumed = resume_(key, request);
    if (table_.Find(key) != nullptr) return kube::ReconcileResult{kCancelLook};
    if (MayPass(resumed) && patient) return resumed;
    if (!resumed.ok()) {
      deps_.cluster.RecordEvent(
          request, /*warning=*/true, "CancelFailed", "Cancel",
          StrCat("its capture was not found again to be cancelled and ends by itself: ",
                 MessageOf(resumed)));
    }
  } else if (begun) {
    deps_.TellEnded(request.ns, request.capture);  // It waited for its next attempt.
  }
  return std::nullopt;
}

// None: the runs are gone. An error of which MayPass is true is worth another try; any other is
// final.
absl::StatusOr<std::optional<kube::ReconcileResult>> Cleanup::Reclaim(
    const std::string& key, const objects::ProfileRequest& request) {
  std::shared_ptr<capture::RunReclaim> reclaim;
  {
    MutexLock lock(&mutex_);
    const auto found = reclaims_.find(key);
    if (found != reclaims_.end() && found->second.uid == request.uid)
      reclaim = found->second.reclaim;
  }
  if (reclaim == nullptr) {
    ASSIGN_OR_RETURN(reclaim, StartReclaim(key, request));
    MutexLock lock(&mutex_);
    reclaims_[key] = {request.uid, reclaim};
  }
  const std::optional<absl::Status> result = reclaim->result();
  if (!result) return kube::ReconcileResult{kReclaimLook};
  // The reclaim has asked every sidecar for as long as it may, so its errors are final.
  if (!result->ok()) return absl::FailedPreconditionError(result->message());
  return std::nullopt;
}

absl::StatusOr<std::shared_ptr<capture::RunReclaim>> Cleanup::StartReclaim(
    const std::string& key, const objects::ProfileRequest& request) {
  std::vector<v1::ReclaimRequest> runs;
  for (int attempt = 1; attempt <= request.status.attempt; ++attempt) {
    v1::ReclaimRequest& run = runs.emplace_back();
    // A sidecar deletes only objects that carry this id, so that a request cannot name a run of
    // somebody else's.
    run.set_capture_id(capture::CaptureId(request.capture, attempt));
    run.set_logdir(request.capture.logdir);
    run.set_run(storage::RunOfAttempt(request.capture.run, attempt));
  }
  // Any pod of the job will do, whether it was chosen to be recorded or not.
  std::vector<capture::Target> sidecars;
  for (const job::TargetSpec& target : objects::TargetsOf(request)) {
    ASSIGN_OR_RETURN(const TargetPods found, FindPodsOnly(deps_.cluster, request.ns, target));
    job::TargetSpec any = target;
    any.sample = any.some_replicas = false;
    any.container.clear();
    job::Selection chosen = job::SelectTargets(any, found.query, found.pods);
    sidecars.insert(sidecars.end(), std::make_move_iterator(chosen.targets.begin()),
                    std::make_move_iterator(chosen.targets.end()));
  }
  if (std::none_of(sidecars.begin(), sidecars.end(),
                   [](const capture::Target& target) { return target.usable(); })) {
    ASSIGN_OR_RETURN(sidecars, OtherSidecars(deps_.cluster, request));
  }
  return capture::RunReclaim::Start({deps_.clock, deps_.executor, deps_.workers},
                                    std::move(sidecars), std::move(runs),
                                    [enqueue = deps_.enqueue, key] { enqueue(key); });
}

void Cleanup::AfterDeletion(const std::string& key, const LiveCapture* live) {
  if (live != nullptr) {
    live->attempt->Cancel("the request was deleted");
    deps_.TellEnded(kube::NamespaceOf(key), live->spec);
  }
  Forget(key);
}

void Cleanup::Retire(const std::string& why) {
  for (const auto& [key, live] : table_.Retire()) {
    live->attempt->Cancel(why);
    deps_.enqueue(key);
  }
}

void Cleanup::Forget(const std::string& key) {
  {
    MutexLock lock(&mutex_);
    reclaims_.erase(key);
  }
  table_.Forget(key);
}

}  // namespace strobe::request
