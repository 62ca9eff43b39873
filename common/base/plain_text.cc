#include "common/base/plain_text.h"

namespace strobe {

std::string WithoutControls(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  while (!text.empty()) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    // U+0080 to U+009F are controls too.
    const bool wide = byte(0) == 0xc2 && text.size() > 1 && byte(1) >= 0x80 && byte(1) <= 0x9f;
    if (wide || byte(0) < 0x20 || byte(0) == 0x7f)
      plain += ' ';
    else
      plain += text[0];
    text.remove_prefix(wide ? 2 : 1);
  }
  return plain;
}

}  // namespace strobe
