// Text of unknown origin within HTML and SVG.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace strobe {

// Valid as the content of an element and as an attribute's value within double quotes. Control
// characters, which neither may contain, become spaces; longer text is cut and ends with "...".
std::string HtmlText(std::string_view unknown, std::size_t max_bytes = 1000);

}  // namespace strobe
