#include "operator/request/request_end.h"

#include <utility>

#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/protocol/outcome.h"
#include "common/text/safe_text.h"
#include "operator/objects/viewer_link.h"
#include "operator/request/request_status.h"

namespace strobe::request {

absl::Status WriteIfChanged(Cluster& cluster, const objects::ProfileRequest& request,
                            const objects::RequestStatus& status) {
  if (SameStatus(request.status, status)) return absl::OkStatus();
  return cluster.WriteStatus(request, status);
}

absl::StatusOr<kube::ReconcileResult> RequestEnd::Finish(const objects::ProfileRequest& request,
                                                         const capture::AttemptResult& result,
                                                         LiveCapture& live) const {
  // Before the status: a user who sees the end may delete the request at once.
  deps_.TellEnded(request.ns, request.capture);
  objects::RequestStatus status = FinishedStatus(request, result, deps_.clock.WallNow());
  status.viewer = objects::ViewerLink(deps_.viewer_url, status.run, request.ns, request.name);
  RETURN_IF_ERROR(deps_.cluster.WriteStatus(request, status));
  Tell(request, result, status, live);
  // What is left to do for a finished request follows from the status that was written just now.
  return kube::ReconcileResult{Nanos{0}};
}

void RequestEnd::TellIfUntold(const objects::ProfileRequest& request, LiveCapture& live) const {
  const bool written = live.counted && !live.retry && request.status.attempt == live.number;
  if (written && !live.told_end)
    Tell(request, *live.attempt->progress().result, request.status, live);
}

void RequestEnd::Tell(const objects::ProfileRequest& request, const capture::AttemptResult& result,
                      const objects::RequestStatus& status, LiveCapture& live) const {
  const CaptureEnd end = result.succeeded   ? CaptureEnd::kSucceeded
                         : result.cancelled ? CaptureEnd::kCancelled
                                            : CaptureEnd::kFailed;
  const bool records = !request.capture.preflight_only;
  live.told_end = true;
  TellStall(request, result.stall, live);
  deps_.cluster.RecordEvent(request, end != CaptureEnd::kSucceeded,
                            StrCat(records ? "Capture" : "Preflight", Name(end)), "Finish",
                            StrCat(result.message, "; ", result.sync_message,
                                   status.viewer.empty() ? "" : "; see ", status.viewer));
  if (!status.report.empty())
    deps_.cluster.RecordEvent(request, /*warning=*/false, "JobReport", "Report", status.report);
  deps_.CountEnd(request, end);
  deps_.Notify(request, status, end);
}

void RequestEnd::TellStall(const objects::ProfileRequest& request,
                           const capture::StallReport& report, LiveCapture& live) const {
  if (!report.stalled() || std::exchange(live.told_stall, true)) return;
  const std::string first = report.text.substr(0, report.text.find('\n'));
  deps_.cluster.RecordEvent(request, /*warning=*/true, "JobStalled", "Judge",
                            StrCat(WithoutControls(first), " (", report.confidence, ")"));
}

absl::StatusOr<kube::ReconcileResult> RequestEnd::Refuse(const objects::ProfileRequest& request,
                                                         const std::string& reason,
                                                         const std::string& message) const {
  return WithoutCapture(request, CaptureEnd::kFailed, reason, message);
}

absl::StatusOr<kube::ReconcileResult> RequestEnd::Cancelled(const objects::ProfileRequest& request,
                                                            const std::string& message) const {
  return WithoutCapture(request, CaptureEnd::kCancelled, std::string(Name(Outcome::kCancelled)),
                        message);
}

absl::StatusOr<kube::ReconcileResult> RequestEnd::WithoutCapture(
    const objects::ProfileRequest& request, CaptureEnd end, const std::string& reason,
    const std::string& message) const {
  // The request has had an attempt, so it may have recorded something.
  if (request.status.attempt > 0) deps_.TellEnded(request.ns, request.capture);
  const objects::RequestStatus status =
      RefusedStatus(request, reason, message, deps_.clock.WallNow());
  RETURN_IF_ERROR(deps_.cluster.WriteStatus(request, status));
  deps_.cluster.RecordEvent(request, end != CaptureEnd::kCancelled, reason, "Refuse", message);
  deps_.CountEnd(request, end);
  deps_.Notify(request, status, end);
  return kube::ReconcileResult{Nanos{0}};
}

}  // namespace strobe::request
