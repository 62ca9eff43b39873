// Parses annotations in XLA's format: "name#key=value,key=value#". Pure.
#pragma once
#include <string_view>
#include <utility>
#include <vector>

namespace strobe::xplane {

struct TraceMeText {
  std::string_view name;  // The text before the metadata.
  std::vector<std::pair<std::string_view, std::string_view>> args;
};

// Parses like XLA. There is metadata only if the text ends with '#'. Pairs are split at commas
// outside of quotes and brackets, and keys end at the first '='. Blanks around both are removed.
// Pairs without key or value are dropped. The views refer to `text`.
TraceMeText ParseTraceMe(std::string_view text);

}  // namespace strobe::xplane
