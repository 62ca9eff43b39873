// What the environment switches off of that which Strobe changes in a program.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string_view>

namespace strobe::agent {

// Whether $STROBE_DISABLE, names separated by commas, holds this one. The names are those of
// docs/reference/trainer-changes.md.
inline bool IsDisabled(std::string_view change) {
  const char* text = std::getenv("STROBE_DISABLE");
  std::string_view rest = text == nullptr ? "" : text;
  while (!rest.empty()) {
    const std::size_t size = std::min(rest.find(','), rest.size());
    if (rest.substr(0, size) == change) return true;
    rest.remove_prefix(std::min(size + 1, rest.size()));
  }
  return false;
}

}  // namespace strobe::agent
