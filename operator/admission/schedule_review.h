// The webhooks' answers to the creation and change of ProfileSchedules. Whoever created a schedule,
// or changed what it asks for last, is the requester of its runs.
#pragma once
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "operator/admission/review.h"
#include "operator/core/gatekeeper.h"

namespace strobe {

// Writes the requester's annotation. `seal_keys` as in WebhookOptions.
AdmissionAnswer StampSchedule(const AdmissionRequest& request,
                              const std::vector<std::string>& seal_keys, WallTime now);

// Refuses a schedule that cannot be carried out, and one whose runs the user may not ask for.
// Blocks for `within` at most.
AdmissionAnswer CheckSchedule(const AdmissionRequest& request, Gatekeeper& gatekeeper,
                              Nanos within);

}  // namespace strobe
