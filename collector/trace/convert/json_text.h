// Writes text as a JSON string.
#pragma once
#include <string>
#include <string_view>

namespace strobe::convert {

// Appends the text with quotes. Bytes that are not UTF-8 become U+FFFD, so that any trace results
// in valid JSON. '<' is escaped, so that the result can be embedded in an HTML page.
void AppendJsonText(std::string_view text, std::string& out);

}  // namespace strobe::convert
