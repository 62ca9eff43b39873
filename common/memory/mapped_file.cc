#include "common/memory/mapped_file.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "common/base/file_descriptor.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe {

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  ASSIGN_OR_RETURN(const FileDescriptor opened, OpenRegularFile(path));
  struct stat status = {};
  if (fstat(opened.get(), &status) != 0) return absl::ErrnoToStatus(errno, path);
  MappedFile file;
  file.path_ = path;
  file.device_ = status.st_dev;
  file.inode_ = status.st_ino;
  file.size_ = static_cast<std::size_t>(status.st_size);
  if (file.size_ > 0) {
    void* data = mmap(nullptr, file.size_, PROT_READ, MAP_PRIVATE, opened.get(), 0);
    if (data == MAP_FAILED) return absl::ErrnoToStatus(errno, path);
    madvise(data, file.size_, MADV_SEQUENTIAL);
    file.data_ = static_cast<const char*>(data);
    ASSIGN_OR_RETURN(file.guard_, ForeignMemory::Guard(data, file.size_, /*writable=*/false));
  }
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
