// A file as a ByteSource.
#pragma once
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "collector/store/byte_source.h"

namespace strobe::storage {

class FileBytes final : public ByteSource {
 public:
  // Opens a regular file, which must not change afterwards.
  static absl::StatusOr<std::unique_ptr<FileBytes>> Open(const std::string& path);
  ~FileBytes() override;
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;

  std::uint64_t size() const override { return size_; }
  absl::Status Read(std::uint64_t offset, std::span<char> into) const override;

 private:
  FileBytes(std::string path, int fd, std::uint64_t size)
      : path_(std::move(path)), fd_(fd), size_(size) {}

  const std::string path_;
  const int fd_;
  const std::uint64_t size_;
};

}  // namespace strobe::storage
