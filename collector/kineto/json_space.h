// White space between JSON's tokens.
#pragma once

namespace strobe::kineto {

inline bool IsJsonSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

}  // namespace strobe::kineto
