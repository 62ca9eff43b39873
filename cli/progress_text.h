// The line of progress of a command that waits.
#pragma once
#include <string>

namespace strobe {

// Shows one line on stderr: on a terminal it is rewritten, elsewhere each new text is a line.
class ProgressText {
 public:
  explicit ProgressText(bool quiet);
  void Show(const std::string& text) { Show(text, text); }
  // Elsewhere than on a terminal the text is a line only if `key` differs from the last one.
  void Show(const std::string& text, const std::string& key);
  void Clear();

 private:
  const bool quiet_, terminal_;
  std::string shown_{};
};

}  // namespace strobe
