// Takes lines and words off the begin of a text.
#pragma once
#include <algorithm>
#include <string_view>

namespace strobe::stall {

// Without its end, which is "\n" or "\r\n".
inline std::string_view TakeLine(std::string_view& text) {
  std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

// Empty if there is none.
inline std::string_view TakeWord(std::string_view& line) {
  constexpr std::string_view kBetween = " \t";
  line.remove_prefix(std::min(line.find_first_not_of(kBetween), line.size()));
  const std::string_view word = line.substr(0, line.find_first_of(kBetween));
  line.remove_prefix(word.size());
  return word;
}

}  // namespace strobe::stall
