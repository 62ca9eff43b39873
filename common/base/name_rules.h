// Which strings from outside may become a path component or an id.
#pragma once
#include <string>
#include <string_view>

namespace strobe {

// One path component that cannot climb, hide or surprise: 1 to `longest` characters of
// [A-Za-z0-9._-], not starting with a dot.
bool IsSafeName(std::string_view text, std::size_t longest = 253);

// What IsSafeName accepts, made of any text: other characters become '_' ("10.0.0.1:9012" becomes
// "10.0.0.1_9012", as profiler servers name their files).
std::string ToSafeName(std::string_view text, std::size_t longest = 253);

}  // namespace strobe
