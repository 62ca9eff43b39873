// Reads fields that several of Strobe's objects have. For use in this folder.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "common/base/duration.h"
#include "common/base/strings.h"
#include "common/text/quantity.h"
#include "operator/base/names.h"

namespace strobe::kube {

// Nothing if the field is missing or is not a time.
inline std::optional<WallTime> ReadTime(const nlohmann::json& object, const char* field) {
  WallTime time{};
  const auto found = object.find(field);
  if (found == object.end() || !found->is_string() ||
      !ParseRfc3339(found->get<std::string>(), time))
    return std::nullopt;
  return time;
}

// Reads the metadata that all of Strobe's objects of a namespace have in common.
template <typename Object>
void ReadMetadata(const nlohmann::json& metadata, Object& object) {
  object.ns = metadata.value("namespace", "");
  object.name = metadata.value("name", "");
  object.uid = metadata.value("uid", "");
  object.resource_version = metadata.value("resourceVersion", "");
  object.generation = metadata.value("generation", std::int64_t{0});
  object.created = ReadTime(metadata, "creationTimestamp").value_or(WallTime{});
  object.deleting = metadata.contains("deletionTimestamp");
}

// The path of a collection of Strobe's objects in one namespace, or in all if `ns` is empty.
inline std::string CollectionPath(const std::string& ns, std::string_view plural) {
  return StrCat("/apis/", kApiVersion, "/", ns.empty() ? "" : StrCat("namespaces/", ns, "/"),
                plural);
}

// Reads a duration into a Nanos or optional<Nanos>. A missing field leaves the target unchanged.
// Throws nlohmann's exceptions if the field is not a string.
template <typename T>
absl::Status ReadDuration(const nlohmann::json& object, const char* field, T& target) {
  const auto found = object.find(field);
  if (found == object.end()) return absl::OkStatus();
  const absl::StatusOr<Nanos> parsed = ParseDuration(found->get<std::string>());
  if (!parsed.ok())
    return absl::InvalidArgumentError(StrCat(field, ": ", MessageOf(parsed.status())));
  target = *parsed;
  return absl::OkStatus();
}

// Reads a quantity of bytes, a number or a text, into an integer or an optional of it. A missing
// field leaves the target unchanged.
template <typename T>
absl::Status ReadBytes(const nlohmann::json& object, const char* field, T& target) {
  const auto found = object.find(field);
  if (found == object.end()) return absl::OkStatus();
  const std::optional<std::uint64_t> bytes =
      ParseBytes(found->is_string() ? found->get<std::string>() : found->dump());
  if (!bytes)
    return absl::InvalidArgumentError(
        StrCat(field, " must be a positive quantity of bytes, such as 512Mi"));
  target = *bytes;
  return absl::OkStatus();
}

}  // namespace strobe::kube
