// Reads several numbers from one text, such as "3:0-2".
#pragma once
#include <charconv>
#include <cstddef>
#include <string_view>
#include <system_error>

namespace strobe {

// `separators` has the character between each two numbers, such as ":-". False unless the whole
// text is read: no blanks, no sign before an unsigned number, no number beyond its type. After
// false, some of the numbers may have been set.
template <typename... Numbers>
bool ParseTuple(std::string_view text, std::string_view separators, Numbers&... numbers) {
  const char* at = text.data();
  const char* const end = at + text.size();
  std::size_t read = 0;
  const auto next = [&](auto& number) {
    if (read > 0 && (at == end || *at++ != separators[read - 1])) return false;
    const std::from_chars_result result = std::from_chars(at, end, number);
    at = result.ptr;
    ++read;
    return result.ec == std::errc();
  };
  return (next(numbers) && ...) && at == end;
}

}  // namespace strobe
