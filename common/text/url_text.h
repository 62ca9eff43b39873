// Text as a part of a URL.
#pragma once
#include <string>
#include <string_view>

namespace strobe {

// Escapes all but letters, digits, "-", "_" and ".", so that the text can stand in a path's segment
// or in a query.
std::string UrlEncode(std::string_view text);

}  // namespace strobe
