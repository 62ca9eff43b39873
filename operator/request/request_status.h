// Computes the status that a ProfileRequest should show, from its old status and what is known now.
// Pure: equal inputs give equal statuses, so that a write can be skipped when nothing has changed.
#pragma once
#include <string>

#include "capture/attempt_progress.h"
#include "capture/attempt_result.h"
#include "operator/objects/request.h"
#include "operator/request/capture_queue.h"

namespace strobe::request {

// Each function returns the request's new status. Conditions whose value has changed get the time
// `now`. `reason` is one CamelCase word; `message` is human-readable.

// No attempt has begun, for a reason that may pass.
objects::RequestStatus PendingStatus(const objects::ProfileRequest& request,
                                     const std::string& reason, const std::string& message,
                                     WallTime now);
// No attempt has begun, because other captures come first on its workers.
objects::RequestStatus QueuedStatus(const objects::ProfileRequest& request,
                                    const CaptureQueue::Position& place, WallTime now);
// An attempt is under way.
objects::RequestStatus ActiveStatus(const objects::ProfileRequest& request, int attempt,
                                    const capture::AttemptProgress& progress, WallTime now);
// An attempt has failed, and the next one is due at `retry`.
objects::RequestStatus RetryStatus(const objects::ProfileRequest& request,
                                   const capture::AttemptResult& result, WallTime retry,
                                   WallTime now);
// The last attempt has ended.
objects::RequestStatus FinishedStatus(const objects::ProfileRequest& request,
                                      const capture::AttemptResult& result, WallTime now);
// The request is finished, and the job that its evidence found standing still moves again.
objects::RequestStatus WithdrawnStatus(const objects::ProfileRequest& request,
                                       const std::string& reason, const std::string& message,
                                       WallTime now);
// The request ends without another attempt: it is refused for good, or cancelled.
objects::RequestStatus RefusedStatus(const objects::ProfileRequest& request,
                                     const std::string& reason, const std::string& message,
                                     WallTime now);

// Whether writing `b` over `a` would change nothing.
bool SameStatus(const objects::RequestStatus& a, const objects::RequestStatus& b);

}  // namespace strobe::request
