#include "collector/store/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "collector/store/store_error.h"
#include "common/base/strings.h"

namespace strobe::storage {

absl::StatusOr<std::unique_ptr<FileBytes>> FileBytes::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return FileError(errno, "open", path);
  struct stat status = {};
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(fd);
    return absl::InvalidArgumentError(StrCat(path, " is not a regular file"));
  }
  return std::unique_ptr<FileBytes>(
      new FileBytes(path, fd, static_cast<std::uint64_t>(status.st_size)));
}

FileBytes::~FileBytes() { close(fd_); }

absl::Status FileBytes::Read(std::uint64_t offset, std::span<char> into) const {
  while (!into.empty()) {
    const ssize_t got = pread(fd_, into.data(), into.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError(errno, "read", path_);
    if (got == 0) return absl::DataLossError(StrCat(path_, " became shorter while it was read"));
    into = into.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return absl::OkStatus();
}

}  // namespace strobe::storage
