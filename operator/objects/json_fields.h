// Fields that several of our objects have. For the readers in this folder.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "common/base/duration.h"
#include "common/base/strings.h"

namespace strobe::kube {

// Nothing when the field is missing or no time.
inline std::optional<WallTime> ReadTime(const nlohmann::json& object, const char* field) {
  WallTime time{};
  const auto found = object.find(field);
  if (found == object.end() || !found->is_string() ||
      !ParseRfc3339(found->get<std::string>(), time))
    return std::nullopt;
  return time;
}

// Into a Nanos or an optional one; a field that is missing leaves the target as it is. Throws as
// nlohmann-json does when the field is no text.
template <typename T>
absl::Status ReadDuration(const nlohmann::json& object, const char* field, T& target) {
  const auto found = object.find(field);
  if (found == object.end()) return absl::OkStatus();
  const absl::StatusOr<Nanos> parsed = ParseDuration(found->get<std::string>());
  if (!parsed.ok()) return absl::InvalidArgumentError(StrCat(field, ": ", Words(parsed.status())));
  target = *parsed;
  return absl::OkStatus();
}

}  // namespace strobe::kube
