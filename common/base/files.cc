#include "common/base/files.h"

#include <sys/stat.h>

#include <cerrno>
#include <fstream>
#include <sstream>

#include "common/base/hash.h"
#include "common/base/strings.h"

namespace strobe {

absl::StatusOr<std::string> ReadTextFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  // Streaming an empty file would set failbit, so emptiness is tested first.
  if (in && in.peek() != std::ifstream::traits_type::eof()) text << in.rdbuf();
  if (in.bad() || !in.is_open()) return absl::NotFoundError(StrCat("cannot read ", path));
  return std::move(text).str();
}

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
