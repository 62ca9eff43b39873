// ProfileRequest objects to core values, and statuses back. Nothing else knows these paths.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "operator/core/request.h"

namespace strobe::kube {

// Of the collection: one namespace's, or every namespace's when it is empty.
std::string RequestsPath(const std::string& space);
std::string RequestPath(const std::string& space, const std::string& name);

// A spec that cannot be carried out is told in `invalid`, which names the field; the schema keeps
// most such objects out. InvalidArgument: not even the metadata can be read.
absl::StatusOr<ProfileRequest> ParseRequest(const nlohmann::json& object);

// The object to apply to /status; refused when the request has changed since it was read.
nlohmann::json StatusToJson(const ProfileRequest& request, const RequestStatus& status);

}  // namespace strobe::kube
