// What was read of a file that comes in pieces and is still needed, in one buffer.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

namespace strobe::kineto {

class FileWindow {
 public:
  // This many bytes behind the end may be read, and the byte before the first one may be changed.
  static constexpr std::size_t kPadding = 64;
  // How much is read at once. The parser's indexes of it fit into a core's cache.
  static constexpr std::size_t kPiece = 256 << 10;

  FileWindow() { KeepFrom(kPadding); }

  // Forgets what is before `from`, and makes space for the next piece. Returns by how much the rest
  // moved towards the buffer's begin.
  std::size_t KeepFrom(std::size_t from) {
    const std::size_t kept = end_ - from;
    const std::size_t wanted = kPadding + kept + kPiece + 2 * kPadding;
    std::unique_ptr<char[]> old;
    if (wanted > capacity_) {
      // By powers of two, so that a large event is not copied often.
      capacity_ = std::bit_ceil(wanted);
      old = std::exchange(buffer_, std::make_unique_for_overwrite<char[]>(capacity_));
      std::memset(buffer_.get(), ' ', kPadding);
      if (old != nullptr) std::memcpy(buffer_.get() + kPadding, old.get() + from, kept);
    } else if (from != kPadding) {
      std::memmove(buffer_.get() + kPadding, buffer_.get() + from, kept);
    }
    const std::size_t moved = from - kPadding;
    offset_ += moved;
    end_ -= moved;
    return moved;
  }
  std::span<char> next_piece() const { return {buffer_.get() + end_, kPiece}; }
  void Commit(std::size_t bytes) { end_ += bytes; }
  // There are no more bytes. Space follows the last one, so that the last block is whole.
  void EndInput() {
    std::memset(buffer_.get() + end_, ' ', kPadding);
    all_read_ = true;
  }

  char* buffer() const { return buffer_.get(); }
  // Where in the buffer the bytes end that were read.
  std::size_t end() const { return end_; }
  bool all_read() const { return all_read_; }
  // The place in the file of the byte `at` in the buffer.
  std::uint64_t PlaceOf(std::size_t at) const { return offset_ + at; }

 private:
  std::unique_ptr<char[]> buffer_;
  std::size_t capacity_ = 0, end_ = kPadding;
  // The place of the buffer's first byte in the file. Modulo 2^64, because the buffer begins with
  // padding.
  std::uint64_t offset_ = 0 - kPadding;
  bool all_read_ = false;
};

}  // namespace strobe::kineto
