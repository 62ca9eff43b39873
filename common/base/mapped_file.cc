#include "common/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "common/base/strings.h"

namespace strobe {

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  // O_NONBLOCK, because opening a FIFO would otherwise wait for a writer.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return absl::ErrnoToStatus(errno, path);
  struct stat status = {};
  MappedFile file;
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(fd);
    return absl::InvalidArgumentError(StrCat(path, " is not a regular file"));
  }
  file.path_ = path;
  file.device_ = status.st_dev;
  file.inode_ = status.st_ino;
  file.size_ = static_cast<std::size_t>(status.st_size);
  if (file.size_ > 0) {
    void* data = mmap(nullptr, file.size_, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
      const int error = errno;
      close(fd);
      return absl::ErrnoToStatus(error, path);
    }
    madvise(data, file.size_, MADV_SEQUENTIAL);
    file.data_ = static_cast<const char*>(data);
    absl::StatusOr<ForeignMemory> guard = ForeignMemory::Guard(data, file.size_, false);
    if (!guard.ok()) {
      close(fd);
      return guard.status();
    }
    file.guard_ = *std::move(guard);
  }
  close(fd);
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(device_, other.device_);
  std::swap(inode_, other.inode_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(guard_, other.guard_);
  return *this;
}

absl::Status MappedFile::Check() const {
  // A truncation within the last remaining page raises no signal: the bytes behind the end read as
  // zeros. The size is therefore compared as well.
  struct stat now = {};
  const bool same = stat(path_.c_str(), &now) == 0 && now.st_dev == device_ && now.st_ino == inode_;
  const bool resized = same && static_cast<std::size_t>(now.st_size) != size_;
  if (!resized && !guard_.damaged()) return absl::OkStatus();
  return absl::DataLossError(StrCat(path_, " was changed while it was read"));
}

MappedFile::~MappedFile() {
  guard_ = ForeignMemory();  // Must end before the mapping does.
  if (data_ != nullptr) munmap(const_cast<char*>(data_), size_);
}

}  // namespace strobe
