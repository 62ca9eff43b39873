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
#include "collector/base/clock.h"
#include "collector/base/mutex.h"
#include "operator/controller/ports.h"
#include "operator/core/capture_attempt.h"
#include "operator/core/gatekeeper.h"
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
  // For good: no operator will come after us. Captures that are under way are cancelled, and none is
  // begun any more.
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
                                         int attempt);
  absl::StatusOr<ReconcileResult> Follow(const std::string& key, const ProfileRequest& request,
                                         const std::shared_ptr<Live>& live);
  absl::StatusOr<ReconcileResult> Refuse(const ProfileRequest& request, const std::string& reason,
                                         const std::string& message);
  // Nothing: it may begin.
  absl::StatusOr<std::optional<ReconcileResult>> HoldBack(const std::string& key,
                                                          const ProfileRequest& request);
  absl::Status Write(const ProfileRequest& request, const RequestStatus& status);
  void TellArmed(const ProfileRequest& request, std::size_t armed, std::size_t matched,
                 int attempt);
  absl::Status Reclaim(const ProfileRequest& request);
  absl::StatusOr<std::optional<ProfileRequest>> Hold(const std::string& key,
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

  // Counts a request of the namespace as one that is about to begin.
  class Starting {
   public:
    Starting(RequestReconciler& reconciler, const std::string& space)
        : reconciler_(reconciler), space_(space) {
      MutexLock lock(&reconciler_.mutex_);
      reconciler_.starting_.insert(space_);
    }
    ~Starting() {
      MutexLock lock(&reconciler_.mutex_);
      reconciler_.starting_.erase(reconciler_.starting_.find(space_));
    }
    Starting(const Starting&) = delete;
    Starting& operator=(const Starting&) = delete;

   private:
    RequestReconciler& reconciler_;
    const std::string& space_;
  };

  const Dependencies deps_;
  mutable Mutex mutex_;
  std::map<std::string, std::shared_ptr<Live>> live_ ABSL_GUARDED_BY(mutex_);
  WorkerQueue queue_ ABSL_GUARDED_BY(mutex_);
  bool retired_ ABSL_GUARDED_BY(mutex_) = false;
  std::multiset<std::string> starting_ ABSL_GUARDED_BY(mutex_);  // Namespaces of those in Begin.
};

}  // namespace strobe
