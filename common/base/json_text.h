// Writes JSON. What reads it is in common/text.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace strobe {

// Serializes a value of any of nlohmann's types and replaces invalid UTF-8, for which its own
// dump() throws. Use it for all values that contain text from outside. `indent`: spaces per level;
// with kOneLine there are neither spaces nor line breaks.
inline constexpr int kOneLine = -1;

template <typename Json = nlohmann::json>
std::string JsonText(const Json& value, int indent = kOneLine) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace strobe
