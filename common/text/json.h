// Reads and writes JSON of others.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace strobe {

struct JsonParts {
  // Whether a member of an object is kept. `path` has the names on the way to it and its own; an
  // element of a list has an empty name. Without it, all members are.
  std::function<bool(const std::vector<std::string>& path)> keep{};
  // Lists and objects inside of so many others are left out.
  std::size_t max_depth = std::numeric_limits<std::size_t>::max();
};

// Discarded (see nlohmann's is_discarded) if the text is not JSON. `Json`: nlohmann's json or
// ordered_json.
template <typename Json = nlohmann::json>
Json ReadJson(std::string_view text, const JsonParts& parts = {});

// Serializes a value of any of nlohmann's types and replaces invalid UTF-8, for which its own
// dump() throws. Use it for all values that contain text from outside. `indent`: spaces per level;
// with kOneLine there are neither spaces nor line breaks.
inline constexpr int kOneLine = -1;

template <typename Json = nlohmann::json>
std::string JsonText(const Json& value, int indent = kOneLine) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace strobe
