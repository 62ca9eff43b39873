// Reads and writes JSON of others.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/json_text.h"

namespace strobe {

struct JsonParts {
  // Whether a member of an object is kept. `path` has the names on the way to it and its own; an
  // element of a list has an empty name. Without it, all members are.
  std::function<bool(const std::vector<std::string>& path)> keep{};
  // Lists and objects inside of so many others are left out.
  std::size_t max_depth = std::numeric_limits<std::size_t>::max();
  // How many values are kept at most. One of two bytes takes up to a hundred in memory.
  std::size_t max_values = std::numeric_limits<std::size_t>::max();
};

// Discarded (see nlohmann's is_discarded) if the text is not JSON, or has too many values. `Json`:
// nlohmann's json or ordered_json.
template <typename Json = nlohmann::json>
Json ReadJson(std::string_view text, const JsonParts& parts = {});

}  // namespace strobe
