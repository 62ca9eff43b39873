// Bytes that grow without ever being copied: asking the system for memory anew at each doubling
// costs more than making an index.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace strobe::index {

class Chunks {
 public:
  // At the end of what is there, with room for kRoom bytes more.
  std::string& Tail() {
    if (chunks_.empty() || chunks_.back().size() + kRoom > kChunk) {
      if (!chunks_.empty()) full_ += chunks_.back().size();
      chunks_.emplace_back().reserve(kChunk);
    }
    return chunks_.back();
  }
  std::uint64_t size() const { return full_ + (chunks_.empty() ? 0 : chunks_.back().size()); }
  const std::vector<std::string>& all() const { return chunks_; }
  // Gives back what the last one has left over.
  void Shrink() {
    if (!chunks_.empty()) chunks_.back().shrink_to_fit();
  }

 private:
  static constexpr std::size_t kRoom = 64, kChunk = 128 << 10;

  std::vector<std::string> chunks_;
  std::uint64_t full_ = 0;  // Of all but the last.
};

}  // namespace strobe::index
