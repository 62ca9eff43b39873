#include "sidecar/source/agent/failed_starts.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "agent/wire/file_lock.h"
#include "common/base/file_descriptor.h"
#include "common/text/plain_text.h"
#include "common/text/utf8.h"

namespace strobe::source {
namespace {

constexpr std::string_view kFailedSuffix = ".failed";
constexpr std::size_t kMaxLine = 500, kMaxName = 100;

// The beginning of the file, as one line, and whether its process still holds it.
FailedStart ReadFailure(int directory, const char* name) {
  FailedStart start;
  const std::string_view process(name, std::strlen(name) - kFailedSuffix.size());
  start.process = WithoutControls(CutUtf8(process, kMaxName));
  const FileDescriptor file(
      openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info {};
  if (file.get() < 0 || fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    start.message = "left no readable message";
    return start;
  }
  start.lives = wire::ByteIsLocked(file.get(), 0);
  std::string text(kMaxLine, '\0');
  const ssize_t size = pread(file.get(), text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  start.message = CutUtf8(text, kMaxLine);
  return start;
}

}  // namespace

std::string FailedStart::container() const {
  const std::size_t at = process.find('@');
  return at == std::string::npos ? "" : process.substr(0, at);
}

std::string FailedStart::pid() const { return process.substr(process.find('@') + 1); }

std::vector<FailedStart> TakeFailedStarts(const std::string& directory) {
  std::vector<FailedStart> failed;
  DIR* const entries = opendir(directory.c_str());
  if (entries == nullptr) return failed;
  while (const dirent* entry = readdir(entries)) {
    const std::string_view name = entry->d_name;
    if (!name.ends_with(kFailedSuffix)) continue;
    FailedStart start = ReadFailure(dirfd(entries), entry->d_name);
    if (start.lives || unlinkat(dirfd(entries), entry->d_name, 0) == 0)
      failed.push_back(std::move(start));
    if (failed.size() == kMaxFailedStarts) break;
  }
  closedir(entries);
  return failed;
}

}  // namespace strobe::source
