// Brings one ProfileRequest closer to what it asks for. Level-based and idempotent: what to do
// follows from the object and from its running capture alone, so it may run at any time, after any
// crash, any number of times.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "operator/job/targets.h"
#include "operator/policy/policy.h"
#include "operator/request/ports.h"
#include "operator/request/request_cleanup.h"
#include "operator/request/request_end.h"
#include "operator/request/request_table.h"

namespace strobe {

class RequestReconciler {
 public:
  using Dependencies = ReconcilerDependencies;

  explicit RequestReconciler(Dependencies dependencies);

  // `key` is "namespace/name". May be called for several keys at once, but for each key by one
  // thread at a time. An error is worth another try.
  absl::StatusOr<ReconcileResult> Reconcile(const std::string& key);
  std::size_t active() const { return table_.active(); }  // Captures that are under way.
  // Cancels all captures and begins no others. Called when no other operator will come after this.
  void Retire(const std::string& why) { cleanup_.Retire(why); }

 private:
  // Where a function below returns an optional result: none = go on with the request; else it must
  // wait, or has ended.
  using MaybeResult = absl::StatusOr<std::optional<ReconcileResult>>;

  absl::StatusOr<ReconcileResult> Begin(const std::string& key, const ProfileRequest& request,
                                        int number);
  MaybeResult HoldBack(const std::string& key, const ProfileRequest& request, int number,
                       const EarlierCaptures& earlier, Nanos max_age);
  absl::StatusOr<ReconcileResult> Hold(const std::string& key, const ProfileRequest& request,
                                       const EarlierCaptures& earlier,
                                       const PolicyVerdict& verdict);
  absl::StatusOr<ReconcileResult> Launch(const std::string& key, const ProfileRequest& request,
                                         int number, const EarlierCaptures& earlier);
  absl::StatusOr<Selection> Select(const ProfileRequest& request, bool patient);
  MaybeResult AwaitTargets(const std::string& key, const ProfileRequest& request, int number,
                           const Selection& selection, std::size_t wanted);
  MaybeResult AwaitTurn(const std::string& key, const ProfileRequest& request,
                        const std::vector<Target>& targets, bool resumes);
  absl::StatusOr<ReconcileResult> StartAttempt(const std::string& key,
                                               const ProfileRequest& request, int number,
                                               std::vector<Target> targets, CaptureSpec spec);
  absl::StatusOr<ProfileRequest> AddFinalizer(const std::string& key,
                                              const ProfileRequest& request);
  absl::StatusOr<ReconcileResult> Follow(const std::string& key, const ProfileRequest& request,
                                         LiveCapture& live);
  absl::StatusOr<ReconcileResult> ShowProgress(const ProfileRequest& request,
                                               const AttemptProgress& progress, LiveCapture& live);
  Nanos PaceOf(const RequestStatus& former, RequestStatus status) const;
  void CountEnd(const std::string& key, const ProfileRequest& request,
                const AttemptProgress& progress, LiveCapture& live);
  absl::StatusOr<std::map<std::string, std::string>> EvidenceOf(const ProfileRequest& request,
                                                                const LiveCapture& live);
  void TellArmed(const ProfileRequest& request, std::size_t armed, std::size_t matched, int number);
  absl::Status Write(const ProfileRequest& request, const RequestStatus& status);

  const Dependencies deps_;
  RequestTable table_;
  const RequestEnd end_;
  RequestCleanup cleanup_;
};

}  // namespace strobe
