// Processes in which Strobe could not reach the framework's profiler: the files *.failed that the
// agent and strobe_bootstrap.py write into the agent directory. They come from the trainer, which
// may be hostile.
#pragma once
#include <string>
#include <vector>

namespace strobe::source {

struct FailedStart {
  std::string process{};  // "<pid>" or "<container>@<pid>", in the process's own PID namespace.
  std::string message{};  // One line of valid UTF-8.
  bool lives = false;     // The process runs: it holds a lock on its file.

  std::string container() const;  // Empty if it is not known.
  std::string pid() const;        // Digits, unless the name is forged.
};

// What processes told: at most kMaxFailedStarts files. Removes those of processes that have ended.
// A file that cannot be removed is left out, because it would be told again each time.
inline constexpr std::size_t kMaxFailedStarts = 64;
std::vector<FailedStart> TakeFailedStarts(const std::string& directory);

}  // namespace strobe::source
