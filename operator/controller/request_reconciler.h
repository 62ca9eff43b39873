// Brings one ProfileRequest closer to what it asks for. Level-based and idempotent: what to do
// follows from the object and from its running capture alone, so it may run at any time, after any
// crash, any number of times.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "operator/controller/ports.h"
#include "operator/core/capture_attempt.h"
#include "operator/core/gatekeeper.h"
#include "operator/core/poll_pace.h"
#include "operator/core/run_reclaim.h"
#include "operator/core/space_line.h"
#include "operator/core/worker_queue.h"

namespace strobe {

// Nothing: wait for the next change. A duration: come back then.
struct ReconcileResult {
  std::optional<Nanos> requeue_after{};
};

class RequestReconciler {
 public:
  struct Dependencies {
    const Clock& clock;
    Executor& executor;
    WorkerConnector& workers;
    Cluster& cluster;
    CaptureMetrics& metrics;
    std::function<void(const std::string& key)> enqueue;
    Gatekeeper* gatekeeper = nullptr;  // Null: whoever can create a request may have it.
  };

  explicit RequestReconciler(Dependencies dependencies) : deps_(std::move(dependencies)) {}

  // Called for one key at a time, for several keys at once.
  absl::StatusOr<ReconcileResult> Reconcile(const std::string& key);
  std::size_t active() const;
  // For good: no operator will come after us. Captures that are under way are cancelled, and none
  // is begun any more.
  void Retire(const std::string& why);

 private:
  // A request's capture while this process knows of it.
  struct Live {
    std::string uid;
    std::shared_ptr<CaptureAttempt> attempt;
    int number = 1;
    WallTime began{};
    std::vector<Target> targets{};
    CaptureSpec spec{};               // With the number of workers that are wanted.
    bool counted = false;             // Its end stands in the metrics.
    MonoTime told{};                  // When its status was written last.
    std::optional<WallTime> retry{};  // When the next attempt is due.
  };

  absl::StatusOr<ReconcileResult> CleanUp(const std::string& key, const ProfileRequest& request);
  absl::StatusOr<ReconcileResult> Expire(const ProfileRequest& request);
  absl::StatusOr<ReconcileResult> Begin(const std::string& key, const ProfileRequest& request,
                                        int attempt);
  absl::StatusOr<ReconcileResult> Launch(const std::string& key, const ProfileRequest& request,
                                         int attempt, const Crowd& crowd);
  absl::StatusOr<Selection> Select(const ProfileRequest& request, const PodQuery& query,
                                   bool patient);
  // Nothing: enough of the workers are there, or are not waited for any longer.
  absl::StatusOr<std::optional<ReconcileResult>> AwaitTargets(const std::string& key,
                                                              const ProfileRequest& request,
                                                              int attempt,
                                                              const Selection& selection,
                                                              std::size_t wanted);
  absl::StatusOr<ReconcileResult> Follow(const std::string& key, const ProfileRequest& request,
                                         const std::shared_ptr<Live>& live);
  absl::StatusOr<ReconcileResult> Refuse(const ProfileRequest& request, const std::string& reason,
                                         const std::string& message);
  // Nothing: it may begin. A verdict that is younger than `max_age` is not asked for again.
  absl::StatusOr<std::optional<ReconcileResult>> HoldBack(const std::string& key,
                                                          const ProfileRequest& request,
                                                          int attempt, const Crowd& crowd,
                                                          Nanos max_age);
  absl::StatusOr<ReconcileResult> Hold(const std::string& key, const ProfileRequest& request,
                                       const Crowd& crowd, const PolicyVerdict& verdict);
  absl::Status Write(const ProfileRequest& request, const RequestStatus& status);
  void TellArmed(const ProfileRequest& request, std::size_t armed, std::size_t matched,
                 int attempt);
  // Nothing: it is done, or was given up.
  absl::StatusOr<std::optional<ReconcileResult>> Reclaim(const std::string& key,
                                                         const ProfileRequest& request);
  // Nothing: it has changed, and comes again.
  absl::StatusOr<std::optional<ProfileRequest>> AddFinalizer(const std::string& key,
                                                             const ProfileRequest& request);
  // Of a request that is gone.
  void GiveUp(const std::string& key, const Live& live, const std::string& why);
  void TellEnded(const std::string& space);
  std::shared_ptr<Live> Find(const std::string& key) const;
  void Keep(const std::string& key, std::shared_ptr<Live> live);
  void Forget(const std::string& key);
  void LeaveQueue(const std::string& key);
  // Nothing: it is its turn on all these workers.
  absl::StatusOr<std::optional<ReconcileResult>> Queue(const std::string& key,
                                                       const ProfileRequest& request,
                                                       const std::vector<Target>& targets,
                                                       bool resumes);
  absl::StatusOr<std::map<std::string, std::string>> EvidenceOf(const ProfileRequest& request,
                                                                const Live& live);

  struct Reclaiming {
    std::string uid;
    std::shared_ptr<RunReclaim> reclaim;
  };

  // Of a request whose attempt has not begun; lost at a restart, which costs it some patience.
  struct Waiting {
    std::string uid;
    int number = 1;
    MonoTime since{};  // When the attempt might have begun: patience counts from here.
    std::optional<MonoTime> judged{};  // When the gatekeeper allowed it last.
    bool held = false;                 // Told to wait by a policy.
  };
  Waiting& WaitingOf(const std::string& key, const ProfileRequest& request, int attempt)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // When it is to look again for what nobody announces.
  Nanos Pace(const std::string& key, const ProfileRequest& request);
  void Enqueue(const std::vector<std::string>& keys);

  const Dependencies deps_;
  mutable Mutex mutex_;
  std::map<std::string, std::shared_ptr<Live>> live_ ABSL_GUARDED_BY(mutex_);
  WorkerQueue queue_ ABSL_GUARDED_BY(mutex_);
  bool retired_ ABSL_GUARDED_BY(mutex_) = false;
  SpaceLine line_ ABSL_GUARDED_BY(mutex_);
  PollPace pace_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Reclaiming> reclaims_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe
