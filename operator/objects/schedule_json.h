// Converts ProfileSchedule objects to core values, statuses back, and makes the ProfileRequests of
// their runs. No other code knows these paths.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "operator/core/schedule.h"

namespace strobe::kube {

// The path of the collection of one namespace, or of all namespaces if `ns` is empty.
std::string SchedulesPath(const std::string& ns);
std::string SchedulePath(const std::string& ns, const std::string& name);

// If the spec cannot be carried out, `invalid` has the reason and names the field. InvalidArgument
// if not even the metadata can be parsed.
absl::StatusOr<ProfileSchedule> ParseSchedule(const nlohmann::json& object);

// The object to apply to /status. The API server refuses it if the schedule has changed since it
// was read.
nlohmann::json ScheduleStatusToJson(const ProfileSchedule& schedule, const ScheduleStatus& status);

// The ProfileRequest to create for a run. It has no requester yet, and no logdir if the template
// has none. `schedule` is not invalid.
nlohmann::json RunToJson(const ProfileSchedule& schedule, const DueRun& run);

// Whether the request is a run of the schedule with this UID.
bool IsRunOf(const nlohmann::json& request, const std::string& schedule_uid);
ScheduleRun ParseRun(const nlohmann::json& request);

}  // namespace strobe::kube
