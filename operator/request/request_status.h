// Computes the status that a ProfileRequest should show, from its old status and what is known now.
// Pure: equal inputs give equal statuses, so that a write can be skipped when nothing has changed.
#pragma once
#include <string>

#include "capture/attempt_progress.h"
#include "capture/attempt_result.h"
#include "operator/objects/request.h"
#include "operator/request/capture_queue.h"

namespace strobe {

// Each function returns the request's new status. Conditions whose value has changed get the time
// `now`. `reason` is one CamelCase word; `message` is human-readable.

// No attempt has begun, for a reason that may pass.
RequestStatus PendingStatus(const ProfileRequest& request, const std::string& reason,
                            const std::string& message, WallTime now);
// No attempt has begun, because other captures come first on its workers.
RequestStatus QueuedStatus(const ProfileRequest& request, const CaptureQueue::Position& place,
                           WallTime now);
// An attempt is under way.
RequestStatus ActiveStatus(const ProfileRequest& request, int attempt,
                           const AttemptProgress& progress, WallTime now);
// An attempt has failed, and the next one is due at `retry`.
RequestStatus RetryStatus(const ProfileRequest& request, const AttemptResult& result,
                          WallTime retry, WallTime now);
// The last attempt has ended.
RequestStatus FinishedStatus(const ProfileRequest& request, const AttemptResult& result,
                             WallTime now);
// The request is finished, and the job that its evidence found standing still moves again.
RequestStatus WithdrawnStatus(const ProfileRequest& request, const std::string& reason,
                              const std::string& message, WallTime now);
// The request ends without another attempt: it is refused for good, or cancelled.
RequestStatus RefusedStatus(const ProfileRequest& request, const std::string& reason,
                            const std::string& message, WallTime now);

// Whether writing `b` over `a` would change nothing.
bool SameStatus(const RequestStatus& a, const RequestStatus& b);

}  // namespace strobe
