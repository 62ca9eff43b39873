// The source of an object's bytes.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace strobe::storage {

// May be read repeatedly and from several threads.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual std::uint64_t size() const = 0;
  // Fills `into` with the bytes from `offset` on. The range must be within the source.
  virtual absl::Status Read(std::uint64_t offset, std::span<char> into) const = 0;
};

// Pieces in memory, concatenated. They must outlive this object.
class MemoryBytes final : public ByteSource {
 public:
  explicit MemoryBytes(std::span<const std::string_view> pieces) : pieces_(pieces) {}
  std::uint64_t size() const override {
    std::uint64_t size = 0;
    for (const std::string_view piece : pieces_) size += piece.size();
    return size;
  }
  absl::Status Read(std::uint64_t offset, std::span<char> into) const override {
    for (const std::string_view piece : pieces_) {
      if (offset < piece.size()) {
        const std::size_t some = std::min(piece.size() - offset, into.size());
        std::memcpy(into.data(), piece.data() + offset, some);
        into = into.subspan(some);
        offset = 0;
      } else {
        offset -= piece.size();
      }
      if (into.empty()) return absl::OkStatus();
    }
    return absl::OutOfRangeError("read past the end");
  }

 private:
  const std::span<const std::string_view> pieces_;
};

// A file as a ByteSource.
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
