// Brings one ProfileRequest closer to what it asks for. Level-based and idempotent: what to do
// follows from the object and from its running capture alone, so it may run at any time, after any
// crash, any number of times.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "operator/request/attempt_launcher.h"
#include "operator/request/ports.h"
#include "operator/request/request_cleanup.h"
#include "operator/request/request_end.h"
#include "operator/request/request_table.h"
#include "operator/request/stall_watch.h"

namespace strobe::request {

class Reconciler {
 public:
  using Dependencies = ReconcilerDependencies;

  explicit Reconciler(Dependencies dependencies);

  // `key` is "namespace/name". May be called for several keys at once, but for each key by one
  // thread at a time. An error is worth another try.
  absl::StatusOr<kube::ReconcileResult> Reconcile(const std::string& key);
  std::size_t active() const { return table_.active(); }  // Captures that are under way.
  // Cancels all captures and begins no others. Called when no other operator will come after this.
  void Retire(const std::string& why) { cleanup_.Retire(why); }

 private:
  absl::StatusOr<kube::ReconcileResult> AfterEnd(const std::string& key,
                                                 const objects::ProfileRequest& request);
  absl::StatusOr<kube::ReconcileResult> Follow(const std::string& key,
                                               const objects::ProfileRequest& request,
                                               LiveCapture& live);
  absl::StatusOr<kube::ReconcileResult> ShowProgress(const objects::ProfileRequest& request,
                                                     const capture::AttemptProgress& progress,
                                                     LiveCapture& live);
  Nanos PaceOf(const objects::RequestStatus& former, objects::RequestStatus status) const;
  void CountEnd(const std::string& key, const objects::ProfileRequest& request,
                const capture::AttemptProgress& progress, LiveCapture& live);
  absl::StatusOr<std::map<std::string, std::string>> EvidenceOf(
      const objects::ProfileRequest& request, const LiveCapture& live);
  void TellArmed(const objects::ProfileRequest& request, std::size_t armed, std::size_t matched,
                 int number);

  const Dependencies deps_;
  Table table_;
  const RequestEnd end_;
  AttemptLauncher launcher_;
  Cleanup cleanup_;
  StallWatch stalls_;
};

}  // namespace strobe::request
