#include "cli/report/markup.h"

#include <cmath>

#include "common/base/strings.h"
#include "common/text/safe_text.h"

namespace strobe::cli {
namespace {

// A tenth of a pixel is enough, and keeps large pictures small.
std::string Pixels(double value) {
  return StrCat(std::isfinite(value) ? std::round(value * 10) / 10 : 0);
}

std::string Titled(std::string_view title) {
  return title.empty() ? "" : StrCat("<title>", HtmlText(title), "</title>");
}

}  // namespace

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

std::string Shortened(std::string_view text, std::size_t most) {
  return text.size() <= most ? std::string(text) : StrCat(CutUtf8(text, most - 2), "..");
}

Svg::Svg(double width, double height, std::string_view label)
    : text_(StrCat("<svg viewBox=\"0 0 ", Pixels(width), " ", Pixels(height),
                   "\" role=\"img\" aria-label=\"", HtmlText(label), "\">\n")) {}

void Svg::Rect(const Box& box, std::string_view style, std::string_view title) {
  if (!(box.width > 0) || !(box.height > 0)) return;
  text_ +=
      StrCat("<rect x=\"", Pixels(box.x), "\" y=\"", Pixels(box.y), "\" width=\"",
             Pixels(box.width), "\" height=\"", Pixels(box.height), "\" class=\"", style, "\"");
  text_ += title.empty() ? std::string("/>\n") : StrCat(">", Titled(title), "</rect>\n");
}

void Svg::Text(double x, double y, std::string_view style, std::string_view text,
               std::string_view title) {
  text_ += StrCat("<text x=\"", Pixels(x), "\" y=\"", Pixels(y), "\" class=\"", style, "\">",
                  Titled(title), HtmlText(text), "</text>\n");
}

std::string Svg::Finish() { return std::move(text_) + "</svg>\n"; }

}  // namespace strobe::cli
