// Text of unknown origin for a terminal or a log.
#pragma once
#include <string>
#include <string_view>

namespace strobe {

// Replaces control characters by spaces, including line ends and terminal escapes (ESC, U+009B).
// Text that somebody else wrote then stays in its line and cannot move the cursor.
std::string WithoutControls(std::string_view text);

}  // namespace strobe
