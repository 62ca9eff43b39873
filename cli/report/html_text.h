// Text of unknown origin within HTML and SVG.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace strobe::cli {

// Returns `unknown` as text that is valid in an element and in a double-quoted attribute. Control
// characters become spaces; longer text is cut and ends with "...".
std::string HtmlText(std::string_view unknown, std::size_t max_bytes = 1000);

}  // namespace strobe::cli
