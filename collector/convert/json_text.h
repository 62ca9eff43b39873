// Text as JSON wants it.
#pragma once
#include <string>
#include <string_view>

namespace strobe::convert {

// With its quotes. Bytes that are no UTF-8 become U+FFFD, so that any trace makes valid JSON; '<'
// is escaped, so that the result may stand in a page.
void AppendJsonText(std::string_view text, std::string& out);

}  // namespace strobe::convert
