// Bytes that are only appended to and then handed over piece by piece. They are never copied, so
// that a line of a gigabyte takes a gigabyte, and a line with one event takes little.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <string_view>
#include <vector>

namespace strobe::kineto {

class ByteChunks {
 public:
  void Append(std::string_view bytes) {
    while (!bytes.empty()) {
      if (chunks_.empty() || chunks_.back().size == chunks_.back().capacity) Grow();
      Chunk& chunk = chunks_.back();
      const std::size_t part = std::min(bytes.size(), chunk.capacity - chunk.size);
      std::memcpy(chunk.bytes.get() + chunk.size, bytes.data(), part);
      chunk.size += part;
      size_ += part;
      bytes.remove_prefix(part);
    }
  }
  std::uint64_t size() const { return size_; }
  // Appends the pieces of `other`, which is empty then.
  void Take(ByteChunks& other) {
    std::move(other.chunks_.begin(), other.chunks_.end(), std::back_inserter(chunks_));
    size_ += other.size_;
    other = {};
  }

  // Calls `visit(std::string_view)` for the pieces in their order.
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    for (const Chunk& chunk : chunks_) visit(std::string_view(chunk.bytes.get(), chunk.size));
  }
  // Like ForEach, and frees each piece afterwards.
  template <typename Visit>
  void Drain(const Visit& visit) {
    for (Chunk& chunk : chunks_) {
      visit(std::string_view(chunk.bytes.get(), chunk.size));
      chunk.bytes.reset();
    }
    *this = {};
  }

 private:
  struct Chunk {
    std::unique_ptr<char[]> bytes;
    std::size_t size, capacity;
  };
  static constexpr std::size_t kMinChunk = 256, kMaxChunk = 256 << 10;

  void Grow() {
    const std::size_t capacity =
        chunks_.empty() ? kMinChunk : std::min(chunks_.back().capacity * 2, kMaxChunk);
    chunks_.push_back({std::make_unique_for_overwrite<char[]>(capacity), 0, capacity});
  }

  std::vector<Chunk> chunks_;
  std::uint64_t size_ = 0;
};

}  // namespace strobe::kineto
