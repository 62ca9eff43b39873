// Converts ProfileRequest objects to core values, and statuses back. No other code knows these
// paths.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "operator/objects/request.h"

namespace strobe::objects {

// The path of the collection of one namespace, or of all namespaces if `ns` is empty.
std::string RequestsPath(const std::string& ns);
std::string RequestPath(const std::string& ns, const std::string& name);

// If the spec cannot be carried out, `invalid` has the reason and names the field; the schema
// refuses most such objects. InvalidArgument if not even the metadata can be parsed.
absl::StatusOr<ProfileRequest> ParseRequest(const nlohmann::json& object);

// A request's spec.target alone, which is cheap. InvalidArgument names the field that is wrong.
absl::StatusOr<job::TargetSpec> ParseTarget(const nlohmann::json& target);

// Since when the request has waited for its first attempt; nothing if that began, or the request is
// finished or being deleted. Does not parse the rest, so that it is cheap for all of them.
std::optional<WallTime> PendingSince(const nlohmann::json& object);

// Whether the request has not finished. As cheap.
bool IsOpen(const nlohmann::json& object);

// The object to apply to /status. The API server refuses it if the request has changed since it was
// read.
nlohmann::json StatusToJson(const ProfileRequest& request, const RequestStatus& status);

}  // namespace strobe::objects
