// Members of untrusted JSON, and fields that several of Strobe's objects have.
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

// The member, or a JSON null if there is none.
inline const nlohmann::json& Member(const nlohmann::json& object, const std::string& name) {
  static const nlohmann::json kNothing;
  if (!object.is_object()) return kNothing;
  const auto found = object.find(name);
  return found == object.end() ? kNothing : *found;
}

// The member, or an empty list or object if it is not one. Copies nothing: objects may be large.
inline const nlohmann::json& ElementsOf(const nlohmann::json& object, const std::string& name) {
  static const nlohmann::json kNone = nlohmann::json::array();
  const nlohmann::json& value = Member(object, name);
  return value.is_array() ? value : kNone;
}
inline const nlohmann::json& ObjectOf(const nlohmann::json& object, const std::string& name) {
  static const nlohmann::json kNone = nlohmann::json::object();
  const nlohmann::json& value = Member(object, name);
  return value.is_object() ? value : kNone;
}

// The member's text; empty if it is not a string.
inline std::string TextOf(const nlohmann::json& object, const std::string& name) {
  const nlohmann::json& value = Member(object, name);
  return value.is_string() ? value.get<std::string>() : "";
}

// True for a quantity other than 0. "0" removes a device that a template requests.
inline bool IsSome(const nlohmann::json& quantity) {
  if (quantity.is_number()) return quantity != 0;
  return quantity.is_string() && quantity != "0";
}

// The index of the entry whose `field` is `text`; nothing if there is none.
inline std::optional<std::size_t> FindBy(const nlohmann::json& list, const char* field,
                                         std::string_view text) {
  for (std::size_t i = 0; list.is_array() && i < list.size(); ++i) {
    if (TextOf(list[i], field) == text) return i;
  }
  return std::nullopt;
}
inline std::optional<std::size_t> Find(const nlohmann::json& list, std::string_view name) {
  return FindBy(list, "name", name);
}

// The index of the environment variable in the container's `env`. Of several with the name, the
// last one counts.
inline std::optional<std::size_t> FindVariable(const nlohmann::json& container,
                                               std::string_view name) {
  const nlohmann::json& environment = Member(container, "env");
  for (std::size_t i = environment.is_array() ? environment.size() : 0; i > 0; --i) {
    if (TextOf(environment[i - 1], "name") == name) return i - 1;
  }
  return std::nullopt;
}

// The value that a container's own object gives the environment variable; nothing if it does not
// set it. Empty for a value from elsewhere.
inline std::optional<std::string> VariableOf(const nlohmann::json& container,
                                             std::string_view name) {
  const std::optional<std::size_t> set = FindVariable(container, name);
  return set ? std::optional(TextOf(Member(container, "env")[*set], "value")) : std::nullopt;
}

// True if a ConfigMap or Secret of the container's `envFrom` may set the variable. A variable in
// `env` hides it.
inline bool MaySetFromElsewhere(const nlohmann::json& container, std::string_view name) {
  const nlohmann::json& sources = Member(container, "envFrom");
  for (std::size_t i = 0; sources.is_array() && i < sources.size(); ++i) {
    const std::string prefix = TextOf(sources[i], "prefix");
    if (name.starts_with(prefix) && name.size() > prefix.size()) return true;
  }
  return false;
}

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
