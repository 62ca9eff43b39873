// A file's bytes, read by the kernel as they are looked at.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace strobe {

class MappedFile {
 public:
  // NotFound, PermissionDenied, or InvalidArgument for what is no regular file.
  static absl::StatusOr<MappedFile> Open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  // The address stays when the object is moved.
  std::string_view bytes() const { return {data_, size_}; }

 private:
  MappedFile() = default;

  const char* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace strobe
