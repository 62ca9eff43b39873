// The source of an object's bytes.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "absl/status/status.h"

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

}  // namespace strobe::storage
