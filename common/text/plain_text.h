// Text of unknown origin for a terminal or a log.
#pragma once
#include <string>
#include <string_view>

namespace strobe {

// Replaces control characters by spaces, including line ends, terminal escapes (ESC, U+009B) and
// what changes the direction of text (U+202A to U+202E, U+2066 to U+2069). Text that somebody else
// wrote then stays in its line, cannot move the cursor, and reads in the order of its bytes.
std::string WithoutControls(std::string_view text);

}  // namespace strobe
