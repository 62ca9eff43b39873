// The status that a ProfileRequest should show. Pure: the old status and what is known now, to the
// new one; equal inputs give an equal status, so a write can be left out when nothing changed.
#pragma once
#include <string>

#include "operator/core/attempt_result.h"
#include "operator/core/capture_attempt.h"
#include "operator/core/request.h"
#include "operator/core/worker_queue.h"

namespace strobe {

// Every function returns the request's status moved on; `now` stamps conditions that changed.

// Not begun, and why: waits for targets, or is refused for now.
RequestStatus PendingStatus(const ProfileRequest& request, const std::string& reason,
                            const std::string& message, WallTime now);
// As before, because other captures come first on its workers.
RequestStatus QueuedStatus(const ProfileRequest& request, const WorkerQueue::Place& place,
                           WallTime now);
// An attempt is under way.
RequestStatus ActiveStatus(const ProfileRequest& request, int attempt,
                           const AttemptProgress& progress, WallTime now);
// An attempt failed and another one is due.
RequestStatus RetryStatus(const ProfileRequest& request, const AttemptResult& result,
                          WallTime retry, WallTime now);
// The last attempt has ended.
RequestStatus FinishedStatus(const ProfileRequest& request, const AttemptResult& result,
                             WallTime now);
// Ended without any attempt: refused for good, or cancelled first.
RequestStatus RefusedStatus(const ProfileRequest& request, const std::string& reason,
                            const std::string& message, WallTime now);

bool SameStatus(const RequestStatus& a, const RequestStatus& b);

}  // namespace strobe
