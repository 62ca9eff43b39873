// The progress of a command that waits: a line for people, or JSON for programs.
#pragma once

#include <string>

#include "capture/attempt_progress.h"

namespace strobe::cli {

// Shows a few lines on stderr. On a terminal they are rewritten, and cut where it ends: a line that
// wraps could not be rewritten. Elsewhere each new text is one line.
class ProgressText {
 public:
  explicit ProgressText(bool quiet);
  void Show(const std::string& text) { Show(text, text); }
  // Without a terminal, the text is written only if `key` differs from the last one.
  void Show(const std::string& text, const std::string& key);
  void Clear();

 private:
  const bool quiet_, terminal_;
  std::string shown_{};
  std::size_t lines_ = 0;  // On the terminal.
};

// The text as one line: its lines separated by semicolons.
std::string OnOneLine(const std::string& text);
// The first `rows` lines, each cut to `columns` bytes.
std::string CutToScreen(const std::string& text, std::size_t rows, std::size_t columns);

// One JSON object per line. Pure.
// {"attempt":1,"phase":"delay","workers":2,"armed":2,"ended":0}, and "waitsFor" while preflight
// waits for workers. The phases are those of Name(Phase).
std::string ProgressEvent(const capture::AttemptProgress& progress, int attempt);

// {"attempt":1,"phase":"retry","message":"..."}: the attempt failed, and another one follows.
std::string RetryEvent(int attempt, const std::string& message);

}  // namespace strobe::cli
