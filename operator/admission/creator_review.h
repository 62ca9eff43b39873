// Answers the webhooks when a ProfileSchedule or ProfileTrigger is created or changed. The user who
// created it, or last changed what it asks for, is the requester of its runs.
#pragma once
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "operator/access/gatekeeper.h"
#include "operator/admission/review.h"
#include "operator/base/run_creator.h"

namespace strobe {

// Writes the requester's annotation. `seal_keys` as in WebhookOptions.
AdmissionAnswer StampCreator(CreatorKind kind, const AdmissionRequest& request,
                             const std::vector<std::string>& seal_keys, WallTime now);

// Refuses a creator whose spec cannot work, or whose runs the user may not ask for. Blocks for
// `within` at most.
AdmissionAnswer CheckCreator(CreatorKind kind, const AdmissionRequest& request,
                             Gatekeeper& gatekeeper, Nanos within);

}  // namespace strobe
