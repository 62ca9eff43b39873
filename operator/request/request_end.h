// Ends requests: writes how they ended, and tells it once, by an event, the metrics and the
// notifier.
#pragma once
#include <string>

#include "absl/status/statusor.h"
#include "operator/request/ports.h"
#include "operator/request/request_table.h"

namespace strobe::request {

// Writes the status unless the request has it already.
absl::Status WriteIfChanged(Cluster& cluster, const objects::ProfileRequest& request,
                            const objects::RequestStatus& status);

class RequestEnd {
 public:
  // `dependencies` must outlive it.
  explicit RequestEnd(const ReconcilerDependencies& dependencies) : deps_(dependencies) {}

  // The request's last attempt, which is `live`, has ended with `result`.
  absl::StatusOr<kube::ReconcileResult> Finish(const objects::ProfileRequest& request,
                                               const capture::AttemptResult& result,
                                               LiveCapture& live) const;
  // The end is in the request's status. Tells it if that was not done, because the answer to the
  // write of the status was lost.
  void TellIfUntold(const objects::ProfileRequest& request, LiveCapture& live) const;
  // Tells by an event, once, that the job stands still and who holds it up.
  void TellStall(const objects::ProfileRequest& request, const capture::StallReport& report,
                 LiveCapture& live) const;
  // No attempt is made, or no further one. `reason` is one CamelCase word.
  absl::StatusOr<kube::ReconcileResult> Refuse(const objects::ProfileRequest& request,
                                               const std::string& reason,
                                               const std::string& message) const;
  absl::StatusOr<kube::ReconcileResult> Cancelled(const objects::ProfileRequest& request,
                                                  const std::string& message) const;

 private:
  void Tell(const objects::ProfileRequest& request, const capture::AttemptResult& result,
            const objects::RequestStatus& status, LiveCapture& live) const;
  absl::StatusOr<kube::ReconcileResult> WithoutCapture(const objects::ProfileRequest& request,
                                                       CaptureEnd end, const std::string& reason,
                                                       const std::string& message) const;

  const ReconcilerDependencies& deps_;
};

}  // namespace strobe::request
