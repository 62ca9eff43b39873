#include "sidecar/source/failed_starts.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "common/base/file_descriptor.h"
#include "common/base/utf8.h"

namespace strobe {
namespace {

constexpr std::string_view kFailedSuffix = ".failed";
constexpr std::size_t kMaxLine = 500;

// The beginning of the file, as one line.
std::string ReadOneLine(int directory, const char* name) {
  const FileDescriptor file(
      openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info {};
  if (file.get() < 0 || fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode))
    return "left no readable message";
  std::string text(kMaxLine, '\0');
  const ssize_t size = pread(file.get(), text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  return std::string(CutUtf8(text, kMaxLine));
}

}  // namespace

std::vector<FailedStart> TakeFailedStarts(const std::string& directory) {
  std::vector<FailedStart> failed;
  DIR* const entries = opendir(directory.c_str());
  if (entries == nullptr) return failed;
  while (const dirent* entry = readdir(entries)) {
    const std::string_view name = entry->d_name;
    if (!name.ends_with(kFailedSuffix)) continue;
    FailedStart start{std::string(CutUtf8(name.substr(0, name.size() - kFailedSuffix.size()), 100)),
                      ReadOneLine(dirfd(entries), entry->d_name)};
    if (unlinkat(dirfd(entries), entry->d_name, 0) == 0) failed.push_back(std::move(start));
    if (failed.size() == kMaxFailedStarts) break;
  }
  closedir(entries);
  return failed;
}

}  // namespace strobe
