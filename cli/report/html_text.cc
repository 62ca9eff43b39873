#include "cli/report/html_text.h"

#include "common/text/plain_text.h"
#include "common/text/utf8.h"

namespace strobe::cli {

std::string HtmlText(std::string_view unknown, std::size_t max_bytes) {
  const std::string text = WithoutControls(CutUtf8(unknown, max_bytes));
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped.push_back(c);
    }
  }
  return unknown.size() > max_bytes ? escaped + "..." : escaped;
}

}  // namespace strobe::cli
