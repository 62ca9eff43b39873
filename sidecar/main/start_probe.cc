#include "sidecar/main/start_probe.h"

#include <unistd.h>

#include <fstream>
#include <string_view>

#include "common/base/log.h"

namespace strobe {
namespace {

constexpr std::string_view kIsStarted = "--is-started", kStartedFile = "--started-file=";

}  // namespace

std::optional<int> AnswerProbe(int argc, const char* const* argv) {
  if (argc != 3 || argv[1] != kIsStarted) return std::nullopt;
  return access(argv[2], F_OK) == 0 ? 0 : 1;
}

std::string StartedFileOf(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with(kStartedFile))
      return std::string(argument.substr(kStartedFile.size()));
  }
  return "";
}

void MarkStarted(const std::string& file) {
  if (file.empty()) return;
  if (!std::ofstream(file, std::ios::trunc))
    LogError("the file of --started-file cannot be written", {{"file", file}});
}

}  // namespace strobe
