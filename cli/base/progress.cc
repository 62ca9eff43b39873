#include "cli/base/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "common/base/strings.h"
#include "common/text/json.h"
#include "common/text/safe_text.h"

namespace strobe::cli {

namespace {

struct Screen {
  std::size_t rows = 24, columns = 80;
};
Screen ScreenSize() {
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0)
    return {};
  return {size.ws_row, size.ws_col};
}

// Whether lines on stderr can be rewritten: editors and logs that have a terminal call it dumb.
bool IsScreen() {
  const char* term = std::getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

}  // namespace

ProgressText::ProgressText(bool quiet) : quiet_(quiet), terminal_(IsScreen()) {}

void ProgressText::Show(const std::string& text, const std::string& key) {
  if (quiet_ || text.empty()) return;
  if (!terminal_) {
    if (key != shown_) std::cerr << OnOneLine(text) << "\n";
    shown_ = key;
    return;
  }
  const Screen screen = ScreenSize();
  // The last row and column stay free: writing there scrolls or wraps.
  const std::string cut = CutToScreen(text, std::max<std::size_t>(screen.rows, 3) - 2,
                                      std::max<std::size_t>(screen.columns, 2) - 1);
  if (lines_ > 0 && cut == shown_) return;
  Clear();
  std::cerr << cut << std::flush;
  shown_ = cut;
  lines_ = static_cast<std::size_t>(std::count(cut.begin(), cut.end(), '\n')) + 1;
}

void ProgressText::Clear() {
  if (lines_ > 0) {
    std::cerr << "\r";
    if (lines_ > 1) std::cerr << "\033[" << lines_ - 1 << "A";
    std::cerr << "\033[J" << std::flush;
  }
  lines_ = 0;
  shown_.clear();
}

std::string OnOneLine(const std::string& text) {
  std::string line;
  for (const std::string& part : Split(text, '\n'))
    line += StrCat(line.empty() ? "" : "; ",
                   part.substr(std::min(part.find_first_not_of(' '), part.size())));
  return line;
}

std::string CutToScreen(const std::string& text, std::size_t rows, std::size_t columns) {
  std::string cut;
  std::size_t row = 0;
  for (const std::string& line : Split(text, '\n')) {
    if (row++ == rows) break;
    if (row > 1) cut += "\n";
    cut += CutUtf8(line, columns);
  }
  return cut;
}

std::string ProgressEvent(const capture::AttemptProgress& progress, int attempt) {
  nlohmann::ordered_json event{{"attempt", attempt},
                               {"phase", std::string(capture::Name(progress.phase))},
                               {"workers", progress.matched},
                               {"armed", progress.armed},
                               {"ended", progress.finished}};
  if (!progress.waits_for.empty()) event["waitsFor"] = progress.waits_for;
  return JsonText(event);
}

std::string RetryEvent(int attempt, const std::string& message) {
  return JsonText(
      nlohmann::ordered_json{{"attempt", attempt}, {"phase", "retry"}, {"message", message}});
}

}  // namespace strobe::cli
