// Text of unknown origin within HTML and SVG, and the pictures of a report. Colours are classes of
// the page's style, because its policy allows no style of an element.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace strobe::cli {

// Returns `unknown` as text that is valid in an element and in a double-quoted attribute. Control
// characters become spaces; longer text is cut and ends with "...".
std::string HtmlText(std::string_view unknown, std::size_t max_bytes = 1000);

struct Box {
  double x = 0, y = 0, width = 0, height = 0;
};

class Svg {
 public:
  // `label` says what the picture shows to those who cannot see it.
  Svg(double width, double height, std::string_view label);

  // Browsers show `title` under the mouse.
  void Rect(const Box& box, std::string_view style, std::string_view title = "");
  // From the baseline at y. Long text is cut.
  void Text(double x, double y, std::string_view style, std::string_view text,
            std::string_view title = "");
  std::string Finish();

 private:
  std::string text_{};
};

// Returns at most `most` bytes of the text, cut between two characters.
std::string Shortened(std::string_view text, std::size_t most);

}  // namespace strobe::cli
