// A buffer of bytes that grows by chunks, so that what is written is never copied. A string that
// doubles would spend more time on getting memory than the index takes to make.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace strobe::index {

class Chunks {
 public:
  // The chunk to append to. It has room for at least kRoom more bytes.
  std::string& Tail() {
    if (chunks_.empty() || chunks_.back().size() + kRoom > kChunk) {
      if (!chunks_.empty()) full_ += chunks_.back().size();
      chunks_.emplace_back().reserve(kChunk);
    }
    return chunks_.back();
  }
  std::uint64_t size() const { return full_ + (chunks_.empty() ? 0 : chunks_.back().size()); }
  const std::vector<std::string>& all() const { return chunks_; }
  std::vector<std::string> Release() && { return std::move(chunks_); }
  // Frees the room that the last chunk does not use.
  void Shrink() {
    if (!chunks_.empty()) chunks_.back().shrink_to_fit();
  }

 private:
  static constexpr std::size_t kRoom = 64, kChunk = 128 << 10;

  std::vector<std::string> chunks_;
  std::uint64_t full_ = 0;  // Bytes in all chunks but the last.
};

}  // namespace strobe::index
