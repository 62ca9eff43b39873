// Answers the webhooks when a ProfileSchedule or ProfileTrigger is created or changed. The user who
// created it, or last changed what it asks for, is the requester of its runs.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "operator/access/gatekeeper.h"
#include "operator/admission/review.h"
#include "operator/base/run_creator.h"

namespace strobe::admission {

// The value of kRequesterAnnotation; null if there is none.
nlohmann::json RequesterAnnotation(const nlohmann::json& object);

// An answer that gives the object this annotation; none if `value` is null.
Answer SetRequesterAnnotation(const nlohmann::json& object, const nlohmann::json& value);

// Writes the requester's annotation. `seal_keys` as in WebhookOptions.
Answer StampCreator(kube::CreatorKind kind, const AdmissionRequest& request,
                    const std::vector<std::string>& seal_keys, WallTime now);

// Refuses a creator whose spec cannot work, or whose runs the user may not ask for. Blocks for
// `within` at most.
Answer CheckCreator(kube::CreatorKind kind, const AdmissionRequest& request,
                    access::Gatekeeper& gatekeeper, Nanos within);

}  // namespace strobe::admission
