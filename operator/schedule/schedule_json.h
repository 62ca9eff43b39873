// Converts ProfileSchedule objects to core values, statuses back, and makes the ProfileRequests of
// their runs.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "operator/objects/run_template.h"
#include "operator/schedule/schedule.h"

namespace strobe::schedule {

// If the spec cannot be carried out, `invalid` has the reason and names the field. InvalidArgument
// if not even the metadata can be parsed.
absl::StatusOr<ProfileSchedule> ParseSchedule(const nlohmann::json& object);

// The object to apply to /status. The API server refuses it if the schedule has changed since it
// was read.
nlohmann::json ScheduleStatusToJson(const ProfileSchedule& schedule, const ScheduleStatus& status);

// The ProfileRequest to create for a run. It has no requester yet, and no logdir if the template
// has none. `schedule` is not invalid.
nlohmann::json RunToJson(const ProfileSchedule& schedule, const DueRun& run);

// Like RunToJson, for a run that is not due yet.
nlohmann::json ExampleRun(const ProfileSchedule& schedule);

}  // namespace strobe::schedule
