// Text of unknown origin for a terminal or a log.
#pragma once
#include <string>
#include <string_view>

namespace strobe {

// Replaces control characters by spaces, line ends and those of terminals (ESC, U+009B) included:
// text that somebody else wrote must stay in its line and must not move the cursor.
std::string WithoutControls(std::string_view text);

}  // namespace strobe
