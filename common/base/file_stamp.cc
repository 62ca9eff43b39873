#include "common/base/file_stamp.h"

#include <sys/stat.h>

#include <cerrno>

#include "common/base/hash.h"
#include "common/base/strings.h"

namespace strobe {

absl::StatusOr<std::string> StampOfFiles(std::span<const std::string> paths) {
  std::string text;
  for (const std::string& path : paths) {
    struct stat status = {};
    if (stat(path.c_str(), &status) != 0) return absl::ErrnoToStatus(errno, path);
    // Inode numbers are left out: those of mounted buckets are made up.
    text += StrCat(path, " ", status.st_size, " ", status.st_mtim.tv_sec, " ",
                   status.st_mtim.tv_nsec, "\n");
  }
  return StrCat(Fnv1a(text));
}

}  // namespace strobe
