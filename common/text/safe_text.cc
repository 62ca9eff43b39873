#include "common/text/safe_text.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"

namespace strobe {

std::size_t Utf8CharacterSize(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto follows = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xbf) {
    return i < text.size() && byte(i) >= low && byte(i) <= high;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return follows(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    // The limits of the second byte exclude overlong encodings and surrogates.
    const unsigned low = first == 0xe0 ? 0xa0 : 0x80, high = first == 0xed ? 0x9f : 0xbf;
    return follows(1, low, high) && follows(2) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const unsigned low = first == 0xf0 ? 0x90 : 0x80, high = first == 0xf4 ? 0x8f : 0xbf;
    return follows(1, low, high) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t size = Utf8CharacterSize(text);
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

std::string CutUtf8(std::string_view text, std::size_t max_bytes) {
  constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD
  std::string valid;
  while (!text.empty()) {
    const std::size_t size = Utf8CharacterSize(text);
    const std::string_view character = size == 0 ? kReplacement : text.substr(0, size);
    if (valid.size() + character.size() > max_bytes) break;
    valid.append(character);
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return valid;
}

namespace {

// The length in bytes of the control character with which the text begins; 0 if it begins with
// another one.
std::size_t ControlLength(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  if (byte(0) < 0x20 || byte(0) == 0x7f) return 1;
  if (byte(0) == 0xc2 && byte(1) >= 0x80 && byte(1) <= 0x9f) return 2;
  const bool embeds = byte(1) == 0x80 && byte(2) >= 0xaa && byte(2) <= 0xae;
  const bool isolates = byte(1) == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9;
  return byte(0) == 0xe2 && (embeds || isolates) ? 3 : 0;
}

}  // namespace

std::string WithoutControls(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  while (!text.empty()) {
    const std::size_t control = ControlLength(text);
    plain += control == 0 ? text[0] : ' ';
    text.remove_prefix(control == 0 ? 1 : control);
  }
  return plain;
}

namespace {

bool IsSafeChar(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
}

}  // namespace

bool IsSafeName(std::string_view text, std::size_t longest) {
  return !text.empty() && text.size() <= longest && text.front() != '.' &&
         std::all_of(text.begin(), text.end(), IsSafeChar);
}

std::string ToSafeName(std::string_view text, std::size_t longest) {
  std::string name(text.substr(0, longest));
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !IsSafeChar(c); }, '_');
  if (name.empty()) return "_";
  if (name.front() == '.') name.front() = '_';
  return name;
}

std::string UrlEncode(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    if (IsSafeName(std::string_view(&c, 1)) || c == '.')
      encoded += c;
    else
      encoded += absl::StrFormat("%%%02X", static_cast<unsigned char>(c));
  }
  return encoded;
}

}  // namespace strobe
