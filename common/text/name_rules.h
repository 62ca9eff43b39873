// Which strings from outside may become a path component or an identifier.
#pragma once
#include <string>
#include <string_view>

namespace strobe {

// True for 1 to `longest` characters of [A-Za-z0-9._-] that do not start with a dot. Such a path
// component cannot leave its directory and is not hidden.
bool IsSafeName(std::string_view text, std::size_t longest = 253);

// Turns any text into a name that IsSafeName accepts by replacing other characters with '_'. For
// example, "10.0.0.1:9012" becomes "10.0.0.1_9012", which is how profiler servers name their files.
std::string ToSafeName(std::string_view text, std::size_t longest = 253);

}  // namespace strobe
