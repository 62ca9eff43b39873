#include "collector/trace/convert/json_text.h"

#include <cstdio>

#include "common/text/utf8.h"

namespace strobe::convert {

void AppendJsonText(std::string_view text, std::string& out) {
  out.push_back('"');
  while (!text.empty()) {
    const std::size_t size = Utf8CharacterSize(text);
    const char c = text[0];
    if (size == 0) {
      out += "\\ufffd";
    } else if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (static_cast<unsigned char>(c) < 0x20 || c == '<') {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
      out += escaped;
    } else {
      out.append(text.substr(0, size));
    }
    text.remove_prefix(size == 0 ? 1 : size);
  }
  out.push_back('"');
}

}  // namespace strobe::convert
