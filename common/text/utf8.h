// Makes text of unknown origin valid UTF-8. Protobuf cannot parse a string field that is not UTF-8,
// and JSON libraries throw. Text from workers, stores, traces and users therefore passes through
// here before it enters a message, an event or a status.
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

}  // namespace strobe
