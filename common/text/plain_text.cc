#include "common/text/plain_text.h"

namespace strobe {

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

}  // namespace strobe
