// The characters of a Python string as UTF-8. C++ standard library only.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace strobe::agent {

inline void AppendUtf8(std::uint32_t character, std::string& out) {
  const auto byte = [&out](std::uint32_t value) { out += static_cast<char>(value); };
  const bool is_control = character < 0x20 || character == 0x7f;
  const bool is_none = character > 0x10ffff || (character >= 0xd800 && character < 0xe000);
  if (is_control || is_none) {
    byte('?');
  } else if (character < 0x80) {
    byte(character);
  } else if (character < 0x800) {
    byte(0xc0 | character >> 6);
    byte(0x80 | (character & 63));
  } else if (character < 0x10000) {
    byte(0xe0 | character >> 12);
    byte(0x80 | (character >> 6 & 63));
    byte(0x80 | (character & 63));
  } else {
    byte(0xf0 | character >> 18);
    byte(0x80 | (character >> 12 & 63));
    byte(0x80 | (character >> 6 & 63));
    byte(0x80 | (character & 63));
  }
}

// `bytes` has characters of `width` bytes each: 1, 2 or 4. Control characters and halves of
// characters become question marks.
inline std::string Utf8Of(std::string_view bytes, int width) {
  std::string out;
  const auto step = static_cast<std::size_t>(width);
  for (std::size_t at = 0; at + step <= bytes.size(); at += step) {
    std::uint32_t character = 0;  // Little-endian machines only, as everything here.
    std::memcpy(&character, bytes.data() + at, step);
    AppendUtf8(character, out);
  }
  return out;
}

}  // namespace strobe::agent
