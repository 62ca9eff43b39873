#include "sidecar/source/kineto/kineto_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <random>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/file_descriptor.h"
#include "common/base/strings.h"
#include "sidecar/source/kineto/kineto_socket.h"

namespace strobe::source {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOurTrace = "strobe-", kFinished = ".json", kUnfinished = ".json.tmp";
constexpr std::string_view kClientSocket = "dynoconfigclient";
constexpr char kConfiguration[] = "libkineto.conf";
constexpr int kMaxEntries = 4096;

bool IsOlder(int directory, const char* name, Nanos age) {
  struct stat info {};
  if (fstatat(directory, name, &info, AT_SYMLINK_NOFOLLOW) != 0) return false;
  const auto changed = std::chrono::system_clock::time_point(std::chrono::seconds(info.st_mtime));
  return std::chrono::system_clock::now() - changed > age;
}

bool MayGo(const std::string& path, int directory, const char* entry,
           const std::vector<std::string>& awaited, Nanos stale) {
  const std::string_view name = entry;
  if (name.starts_with(kClientSocket))
    return IsOlder(directory, entry, stale) && !IsKinetoClientThere(path, entry);
  if (!name.starts_with(kOurTrace)) return false;
  const bool is_awaited = std::any_of(awaited.begin(), awaited.end(), [&](const std::string& stem) {
    return name.starts_with(stem);
  });
  if (is_awaited) return false;
  // An unfinished one may belong to a process that is still recording.
  if (name.ends_with(kUnfinished)) return IsOlder(directory, entry, stale);
  return name.ends_with(kFinished);
}

}  // namespace

absl::Status PrepareKinetoDirectory(const std::string& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  // Writable for all, because any user may run the trainer. Sticky, so that users cannot remove
  // each other's files; the sidecar can, because it owns the directory.
  if (error || chmod(directory.c_str(), 01777) != 0)
    return absl::UnavailableError(StrCat(directory, " cannot be created and shared"));
  const std::string path = StrCat(directory, "/", kConfiguration),
                    hidden = StrCat(directory, "/.", kConfiguration);
  (void)unlink(hidden.c_str());  // Whatever anybody has put there.
  const FileDescriptor file(
      open(hidden.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
  const int written =
      file.get() < 0 ? errno : WriteAll(file.get(), "ON_DEMAND_CONFIG_UPDATE_INTERVAL_SECS=1\n");
  if (written == 0 && rename(hidden.c_str(), path.c_str()) == 0) return absl::OkStatus();
  return absl::UnavailableError(
      StrCat(directory, ": ", std::generic_category().message(written != 0 ? written : errno)));
}

std::string NewKinetoTrace(const std::string& directory) {
  std::random_device random;
  const std::uint64_t number = (std::uint64_t{random()} << 32) | random();
  return StrCat(directory, "/", kOurTrace, absl::StrFormat("%016x", number), kFinished);
}

void LookForTrace(const std::string& path, MonoTime now, KinetoSigns& signs) {
  struct stat info {};
  signs.finished = lstat(path.c_str(), &info) == 0;
  const bool unfinished = lstat((path + ".tmp").c_str(), &info) == 0;
  const std::uint64_t bytes = unfinished ? static_cast<std::uint64_t>(info.st_size) : 0;
  if (bytes != std::exchange(signs.unfinished_bytes, bytes)) signs.grew = now;
  signs.began = signs.began || signs.finished || unfinished;
}

void RemoveUnfinishedTrace(const std::string& path) { (void)unlink((path + ".tmp").c_str()); }

void TidyKinetoDirectory(const std::string& directory, const std::vector<std::string>& awaited,
                         Nanos stale) {
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(opendir(directory.c_str()), closedir);
  if (entries == nullptr) return;
  for (int i = 0; i < kMaxEntries; ++i) {
    const dirent* entry = readdir(entries.get());
    if (entry == nullptr) return;
    if (MayGo(directory, dirfd(entries.get()), entry->d_name, awaited, stale))
      (void)unlinkat(dirfd(entries.get()), entry->d_name, 0);
  }
}

}  // namespace strobe::source
