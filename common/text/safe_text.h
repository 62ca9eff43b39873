// Makes text of unknown origin safe: valid UTF-8, plain for a terminal or a log, a path component,
// a part of a URL. Protobuf cannot parse a string field that is not UTF-8, and JSON libraries
// throw, so text from workers, stores, traces and users passes through here before it enters a
// message, an event or a status.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace strobe {

// The size in bytes of the first UTF-8 character of `text`, which must not be empty. Returns 0 if
// the first character is invalid.
std::size_t Utf8CharacterSize(std::string_view text);

bool IsUtf8(std::string_view text);

// Replaces every invalid byte by U+FFFD and cuts the text at a character boundary so that it has at
// most `max_bytes` bytes.
std::string CutUtf8(std::string_view text, std::size_t max_bytes);

// Replaces control characters by spaces, including line ends, terminal escapes (ESC, U+009B) and
// what changes the direction of text (U+202A to U+202E, U+2066 to U+2069). Text that somebody else
// wrote then stays in its line, cannot move the cursor, and reads in the order of its bytes.
std::string WithoutControls(std::string_view text);

// True for 1 to `longest` characters of [A-Za-z0-9._-] that do not start with a dot. Such a path
// component cannot leave its directory and is not hidden.
bool IsSafeName(std::string_view text, std::size_t longest = 253);

// Turns any text into a name that IsSafeName accepts by replacing other characters with '_'. For
// example, "10.0.0.1:9012" becomes "10.0.0.1_9012", which is how profiler servers name their files.
std::string ToSafeName(std::string_view text, std::size_t longest = 253);

// Escapes all but letters, digits, "-", "_" and ".", so that the text can stand in a path's segment
// or in a query.
std::string UrlEncode(std::string_view text);

}  // namespace strobe
