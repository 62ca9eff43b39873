// A file's bytes, read by the kernel as they are looked at.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/base/foreign_memory.h"

namespace strobe {

// The file may become shorter while it is mapped, or somebody else writes into it. Then its bytes
// have any value, mostly zero, and reading them is still safe. The reader calls Check() before it
// uses what it read.
class MappedFile {
 public:
  // NotFound, PermissionDenied, or InvalidArgument for what is no regular file. ResourceExhausted
  // when too many are mapped (see ForeignMemory).
  static absl::StatusOr<MappedFile> Open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  // The address stays when the object is moved.
  std::string_view bytes() const { return {data_, size_}; }
  // DataLoss when the file has not the size any more that it had when it was opened, or lost pages
  // meanwhile. One that was deleted or replaced is still there for us.
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
