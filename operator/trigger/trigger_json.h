// Converts ProfileTrigger objects to core values, statuses back, and makes the ProfileRequests of
// their runs.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "operator/objects/run_template.h"
#include "operator/trigger/trigger.h"

namespace strobe::trigger {

// If the spec cannot be carried out, `invalid` has the reason and names the field. InvalidArgument
// if not even the metadata can be parsed.
absl::StatusOr<ProfileTrigger> ParseTrigger(const nlohmann::json& object);

// The object to apply to /status. The API server refuses it if the trigger has changed since it was
// read.
nlohmann::json TriggerStatusToJson(const ProfileTrigger& trigger, const TriggerStatus& status);

// The ProfileRequest to create for a run. It has no requester yet, and no logdir if the template
// has none. `trigger` is not invalid.
nlohmann::json RunToJson(const ProfileTrigger& trigger, const TriggeredRun& run);
// Like RunToJson, for a run that no alert has started yet.
nlohmann::json ExampleRun(const ProfileTrigger& trigger);

// The run that a ProfileRequest is; `trigger` is empty if no trigger has started it.
TriggerRun ParseTriggeredRun(const nlohmann::json& request);

}  // namespace strobe::trigger
