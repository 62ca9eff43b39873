#include "cli/progress_text.h"

#include <unistd.h>

#include <iostream>

namespace strobe {

ProgressText::ProgressText(bool quiet) : quiet_(quiet), terminal_(isatty(STDERR_FILENO) == 1) {}

void ProgressText::Show(const std::string& text, const std::string& key) {
  if (quiet_ || text.empty()) return;
  if (terminal_)
    std::cerr << "\r\033[K" << text << std::flush;
  else if (key != shown_)
    std::cerr << text << "\n";
  shown_ = key;
}

void ProgressText::Clear() {
  if (!quiet_ && terminal_ && !shown_.empty()) std::cerr << "\r\033[K" << std::flush;
  shown_.clear();
}

}  // namespace strobe
