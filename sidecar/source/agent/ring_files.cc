#include "sidecar/source/agent/ring_files.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "agent/wire/collective_file.h"

namespace strobe::source {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxFiles = 4096;

}  // namespace

OpenedRings OpenRings(const std::string& path) {
  OpenedRings opened;
  wire::RingFile file = wire::RingFile::Map(path);
  if (!file) {
    opened.lives = wire::RingFile::MayLive(path);
    return opened;
  }
  opened.lives = file.ProgramLives();
  absl::StatusOr<ForeignMemory> guard =
      ForeignMemory::Guard(file.memory(), file.size(), /*writable=*/true);
  if (!guard.ok()) return opened;
  opened.error = file.Check();
  if (opened.error != wire::RingFileError::kNotOurs) {
    opened.version = file.header()->version;
    opened.pid = file.header()->pid;  // The offset is the same in all versions.
  }
  opened.rings.file = std::move(file);
  opened.rings.guard = *std::move(guard);
  if (opened.rings.guard.damaged()) opened.error = wire::RingFileError::kDamaged;
  return opened;
}

bool WasKilled(const OpenedRings& opened) {
  const wire::RingFile& file = opened.rings.file;
  return opened.error == wire::RingFileError::kNone && !opened.lives && !file.HasHeirs() &&
         file.header()->has_exited.load() == 0;
}

void RemoveRings(const std::string& path) {
  unlink(path.c_str());
  unlink(wire::CollectivePath(path).c_str());
}

std::vector<std::string> RingFiles(const std::string& directory) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end;
       !error && it != end && files.size() < kMaxFiles; it.increment(error)) {
    if (it->path().native().ends_with(".rings")) files.push_back(it->path().native());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace strobe::source
