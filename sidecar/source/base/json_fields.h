// Fields of JSON objects that programs write: of whatever type and size they are, reading is safe.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "common/text/safe_text.h"

namespace strobe::source {

// At most `max_bytes` of a string; empty if there is none.
inline std::string TextField(const nlohmann::json& object, const char* key, std::size_t max_bytes) {
  const auto it = object.find(key);
  if (it == object.end() || !it->is_string()) return "";
  return std::string(CutUtf8(it->get_ref<const std::string&>(), max_bytes));
}

// A whole number from 0 to the type's largest; none if there is no such number.
template <typename T>
std::optional<T> NumberField(const nlohmann::json& object, const char* key) {
  const auto it = object.find(key);
  if (it == object.end() || !it->is_number_unsigned()) return std::nullopt;
  const auto number = it->get<std::uint64_t>();
  if (number > static_cast<std::uint64_t>(std::numeric_limits<T>::max())) return std::nullopt;
  return static_cast<T>(number);
}

}  // namespace strobe::source
