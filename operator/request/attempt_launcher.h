// Leads a request to its next attempt. Access and policies are judged, workers awaited, and turns
// on them taken; then the attempt is started. Level-based and idempotent, as RequestReconciler,
// which calls it.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "operator/job/joined_targets.h"
#include "operator/policy/policy.h"
#include "operator/request/ports.h"
#include "operator/request/request_end.h"
#include "operator/request/request_table.h"

namespace strobe {

class AttemptLauncher {
 public:
  // All must outlive it.
  AttemptLauncher(const ReconcilerDependencies& dependencies, RequestTable& table,
                  const RequestEnd& end)
      : deps_(dependencies), table_(table), end_(end) {}

  // Begins attempt `number`, or takes it up again if the previous leader has begun it. If it cannot
  // begin yet, the status tells what it waits for.
  absl::StatusOr<ReconcileResult> Begin(const std::string& key, const ProfileRequest& request,
                                        int number);

 private:
  // Where a function below returns an optional result: none = go on with the request; else it must
  // wait, or has ended.
  using MaybeResult = absl::StatusOr<std::optional<ReconcileResult>>;

  MaybeResult HoldBack(const PendingRequest& pending, Nanos max_age);
  absl::StatusOr<ReconcileResult> Hold(const PendingRequest& pending, const PolicyVerdict& verdict);
  absl::StatusOr<ReconcileResult> Launch(const PendingRequest& pending);
  // What is in the cluster for each target.
  absl::StatusOr<std::vector<TargetSelection>> Select(const PendingRequest& pending);
  MaybeResult AwaitAll(const PendingRequest& pending,
                       const std::vector<TargetSelection>& selections);
  MaybeResult AwaitTarget(const PendingRequest& pending, const TargetSelection& target);
  MaybeResult AwaitPolicy(const PendingRequest& pending);
  MaybeResult AwaitTurn(const PendingRequest& pending, const std::vector<Target>& targets);
  absl::StatusOr<ReconcileResult> StartAttempt(const PendingRequest& pending,
                                               std::vector<Target> targets, CaptureSpec spec);
  absl::StatusOr<ProfileRequest> AddFinalizer(const PendingRequest& pending);

  const ReconcilerDependencies& deps_;
  RequestTable& table_;
  const RequestEnd& end_;
};

}  // namespace strobe
