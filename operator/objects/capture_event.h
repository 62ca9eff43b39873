// How a capture ended, as a CloudEvent (cloudevents.io, version 1.0 in JSON) for programs outside
// of the cluster. docs/how-to/automatic.md describes its fields. Pure.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "operator/objects/request.h"

namespace strobe::objects {

// The event's id. It is the same each time this end is sent, so that receivers recognize
// repetitions.
std::string CaptureEventId(const ProfileRequest& request);

// `result` is "Succeeded", "Failed" or "Cancelled", and `source` names the operator.
nlohmann::json CaptureEvent(const ProfileRequest& request, const RequestStatus& status,
                            std::string_view result, const std::string& source, WallTime now);

// The event as an annotation of Grafana (POST /api/annotations): the recorded time, or the end if
// nothing was recorded, with tags by which dashboards choose.
nlohmann::json GrafanaAnnotation(const ProfileRequest& request, const RequestStatus& status,
                                 std::string_view result, const std::string& source, WallTime now);

}  // namespace strobe::objects
