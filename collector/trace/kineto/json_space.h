// White space between JSON's tokens.
#pragma once
#include <string>
#include <string_view>

namespace strobe::kineto {

inline bool IsJsonSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

// Whether the white space of a list or an object is as in `[1, {"a": "b"}]`: one blank behind each
// comma and colon, none elsewhere. PyTorch and Python's json write it so.
bool IsEvenlySpaced(std::string_view json);
// Appends the list or object with such white space. Texts stay as they are. The result has at most
// twice the size.
void AppendEvenlySpaced(std::string_view json, std::string& to);

}  // namespace strobe::kineto
