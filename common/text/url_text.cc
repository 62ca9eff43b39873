#include "common/text/url_text.h"

#include "absl/strings/str_format.h"
#include "common/text/name_rules.h"

namespace strobe {

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
