// Leads a request to its next attempt. Access and policies are judged, workers awaited, and turns
// on them taken; then the attempt is started. Level-based and idempotent, as Reconciler,
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

namespace strobe::request {

class AttemptLauncher {
 public:
  // All must outlive it.
  AttemptLauncher(const ReconcilerDependencies& dependencies, Table& table, const RequestEnd& end)
      : deps_(dependencies), table_(table), end_(end) {}

  // Begins attempt `number`, or takes it up again if the previous leader has begun it. If it cannot
  // begin yet, the status tells what it waits for.
  absl::StatusOr<kube::ReconcileResult> Begin(const std::string& key,
                                              const objects::ProfileRequest& request, int number);

 private:
  // Where a function below returns an optional result: none = go on with the request; else it must
  // wait, or has ended.
  using MaybeResult = absl::StatusOr<std::optional<kube::ReconcileResult>>;

  MaybeResult HoldBack(const PendingRequest& pending, Nanos max_age);
  absl::StatusOr<kube::ReconcileResult> Hold(const PendingRequest& pending,
                                             const policy::Verdict& verdict);
  absl::StatusOr<kube::ReconcileResult> Launch(const PendingRequest& pending);
  // What is in the cluster for each target.
  absl::StatusOr<std::vector<job::TargetSelection>> Select(const PendingRequest& pending);
  MaybeResult AwaitAll(const PendingRequest& pending,
                       const std::vector<job::TargetSelection>& selections);
  MaybeResult AwaitTarget(const PendingRequest& pending, const job::TargetSelection& target);
  MaybeResult AwaitPolicy(const PendingRequest& pending);
  MaybeResult AwaitTurn(const PendingRequest& pending, const std::vector<capture::Target>& targets);
  absl::StatusOr<kube::ReconcileResult> StartAttempt(const PendingRequest& pending,
                                                     std::vector<capture::Target> targets,
                                                     capture::Spec spec);
  absl::StatusOr<objects::ProfileRequest> AddFinalizer(const PendingRequest& pending);

  const ReconcilerDependencies& deps_;
  Table& table_;
  const RequestEnd& end_;
};

}  // namespace strobe::request
