// A read-only, memory-mapped file.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/memory/foreign_memory.h"

namespace strobe {

// The file may be truncated or overwritten while it is mapped. Reading then stays safe but returns
// arbitrary bytes, mostly zeros. Call Check() after reading and before using what was read.
class MappedFile {
 public:
  // NotFound, PermissionDenied, InvalidArgument if it is not a regular file, or ResourceExhausted
  // if too many files are mapped (see ForeignMemory).
  static absl::StatusOr<MappedFile> Open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  // The address does not change when the object is moved.
  std::string_view bytes() const { return {data_, size_}; }
  // DataLoss if the file's size changed since it was opened, or if pages were lost. A file that was
  // deleted or replaced is still readable and is not an error.
  absl::Status Check() const;

 private:
  MappedFile() = default;

  std::string path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  const char* data_ = nullptr;
  std::size_t size_ = 0;
  ForeignMemory guard_;
};

}  // namespace strobe
