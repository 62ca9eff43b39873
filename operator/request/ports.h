// What the reconciler of ProfileRequests needs from outside, and what it returns.
#pragma once
#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "capture/attempt_progress.h"
#include "capture/evidence_memory.h"
#include "capture/ports.h"
#include "common/base/clock.h"
#include "common/base/enum_names.h"
#include "common/base/executor.h"
#include "operator/access/gatekeeper.h"
#include "operator/job/shape.h"
#include "operator/job/targets.h"
#include "operator/kube/reconcile_threads.h"
#include "operator/objects/request.h"

namespace strobe::request {

// The Kubernetes API. Calls block, each for a bounded time, and are made from reconcile threads
// only.
class Cluster {
 public:
  virtual ~Cluster() = default;
  // From the cache, which already shows the operator's own writes. NotFound when there is no such
  // object; InvalidArgument when it cannot be parsed.
  virtual absl::StatusOr<objects::ProfileRequest> GetRequest(const std::string& key) = 0;
  // Pods of the namespace that the query selects, as the API server's own cache has them.
  virtual absl::StatusOr<std::vector<job::PodInfo>> ListPods(const std::string& ns,
                                                             const job::PodQuery& query) = 0;
  // How many workers a job should have, and which object's pods they are. What will stay unknown,
  // for example because the kind's API is not installed or not allowed, is told in
  // Shape::unknown. An error is worth another try.
  virtual absl::StatusOr<job::Shape> DescribeJob(const std::string& ns,
                                                 const kube::JobRef& job) = 0;
  // Aborted when the object has changed since it was read.
  virtual absl::Status SetFinalizers(const objects::ProfileRequest& request,
                                     const std::vector<std::string>& finalizers) = 0;
  virtual absl::Status WriteStatus(const objects::ProfileRequest& request,
                                   const objects::RequestStatus& status) = 0;
  virtual absl::Status DeleteRequest(const objects::ProfileRequest& request) = 0;
  // Never blocks; an event that cannot be written is dropped.
  virtual void RecordEvent(const objects::ProfileRequest& request, bool warning,
                           const std::string& reason, const std::string& action,
                           const std::string& note) = 0;
};

// How a request ended.
enum class CaptureEnd { kSucceeded, kFailed, kCancelled };
inline std::string_view Name(CaptureEnd end) {
  static constexpr EnumNames<CaptureEnd, 3> kNames({{CaptureEnd::kSucceeded, "Succeeded"},
                                                    {CaptureEnd::kFailed, "Failed"},
                                                    {CaptureEnd::kCancelled, "Cancelled"}});
  return kNames.Of(end);
}

// Called from any reconcile thread.
class CaptureMetrics {
 public:
  virtual ~CaptureMetrics() = default;
  virtual void AttemptEnded(const objects::ProfileRequest& request,
                            const capture::AttemptProgress& progress) = 0;
  virtual void CaptureEnded(const objects::ProfileRequest& request, CaptureEnd end) = 0;
  virtual void ActiveCaptures(std::size_t count) = 0;
};

// All must outlive the reconciler.
struct ReconcilerDependencies {
  const Clock& clock;
  Executor& executor;
  capture::WorkerConnector& workers;
  Cluster& cluster;
  CaptureMetrics& metrics;
  // Reconciles a request again as soon as possible. Called from any thread; must not block.
  std::function<void(const std::string& key)> enqueue;
  access::Gatekeeper* gatekeeper =
      nullptr;               // Null: every request that could be created is allowed.
  std::string viewer_url{};  // See viewer_link.h; empty = finished requests have no link.
  capture::Reporter* reporter = nullptr;  // Null: captures have no report.
  // Notifies programs outside of the cluster of a capture's end, once it is in the request's
  // status. Called by any reconcile thread; must not block. Empty: there is nobody to notify.
  std::function<void(const objects::ProfileRequest&, const objects::RequestStatus&, CaptureEnd)>
      notify{};
  // For evidence of stalls; see Attempt::Dependencies.
  Executor* judging = nullptr;
  capture::EvidenceMemory* evidence_memory = nullptr;

  // A request that only preflights is no capture: it counts neither for policies nor in metrics.
  // Evidence records nothing, and does not count for policies.

  // Tells the gatekeeper that a capture of the namespace has ended just now.
  void TellEnded(const std::string& ns, const capture::Spec& capture) const {
    if (gatekeeper != nullptr && !capture.preflight_only && !capture.collects_evidence)
      gatekeeper->CaptureEnded(ns, clock.WallNow());
  }
  void CountAttempt(const objects::ProfileRequest& request,
                    const capture::AttemptProgress& progress) const {
    if (!request.capture.preflight_only) metrics.AttemptEnded(request, progress);
  }
  void CountEnd(const objects::ProfileRequest& request, CaptureEnd end) const {
    if (!request.capture.preflight_only) metrics.CaptureEnded(request, end);
  }
  void Notify(const objects::ProfileRequest& request, const objects::RequestStatus& status,
              CaptureEnd end) const {
    if (notify && !request.capture.preflight_only) notify(request, status, end);
  }
};

// The shorter of two delays, each of which may be none.
inline std::optional<Nanos> Sooner(std::optional<Nanos> one, std::optional<Nanos> other) {
  if (!one || !other) return one ? one : other;
  return std::min(*one, *other);
}

}  // namespace strobe::request
