#include "common/base/file_descriptor.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "common/base/strings.h"

namespace strobe {

absl::StatusOr<FileDescriptor> OpenRegularFile(const std::string& path) {
  // O_NONBLOCK, because opening a FIFO would otherwise wait for a writer.
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return absl::ErrnoToStatus(errno, path);
  struct stat status = {};
  if (fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode))
    return absl::InvalidArgumentError(StrCat(path, " is not a regular file"));
  return file;
}

int WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written >= 0)
      bytes.remove_prefix(static_cast<std::size_t>(written));
    else if (errno != EINTR)
      return errno;
  }
  return 0;
}

int FlushFile(int fd) { return fsync(fd) == 0 || errno == EINVAL ? 0 : errno; }

int FlushFolder(int at, const char* path) {
  const FileDescriptor folder(openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() >= 0 && fsync(folder.get()) == 0) return 0;
  // Other errors say that it cannot be done here; the files themselves are as safe as before.
  return errno == EIO || errno == ENOSPC || errno == EDQUOT ? errno : 0;
}

absl::StatusOr<std::size_t> ReadSome(const FileDescriptor& file, std::span<char> room) {
  for (;;) {
    const ssize_t bytes = read(file.get(), room.data(), room.size());
    if (bytes >= 0) return static_cast<std::size_t>(bytes);
    if (errno != EINTR) return absl::ErrnoToStatus(errno, "cannot read");
  }
}

}  // namespace strobe
