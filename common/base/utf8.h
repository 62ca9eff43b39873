// Text of unknown origin as valid UTF-8. Protobuf refuses to parse a string field that is not, and
// JSON libraries throw, so whatever a worker, a store, a trace or a user says passes through here
// before it enters a message, an event or a status.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace strobe {

// Bytes of the UTF-8 character at the beginning of `text`, which must not be empty; 0 when there is
// no valid one.
std::size_t Utf8CharacterSize(std::string_view text);

bool IsUtf8(std::string_view text);

// `text` with every invalid byte replaced by U+FFFD, cut before the character that would make it
// longer than `max_bytes`.
std::string CutUtf8(std::string_view text, std::size_t max_bytes);

}  // namespace strobe
