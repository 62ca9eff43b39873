// Annotations as XLA writes them: "name#key=value,key=value#". Pure.
#pragma once
#include <string_view>
#include <utility>
#include <vector>

namespace strobe::xplane {

struct TraceMeText {
  std::string_view name;  // What stands before the metadata.
  std::vector<std::pair<std::string_view, std::string_view>> args;
};

// The views point into `text`. As XLA parses it: metadata only when the text ends with '#'; pairs
// are split at commas outside of quotes and brackets, keys end at the first '='; blanks around both
// are dropped, and so are pairs without key or value.
TraceMeText ParseTraceMe(std::string_view text);

}  // namespace strobe::xplane
