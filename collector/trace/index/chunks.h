// A buffer of bytes that grows by chunks, so that what is written is never copied. A string that
// doubles would spend more time on getting memory than the index takes to make.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/trace/index/spill.h"

namespace strobe::index {

// Frees a chunk's room, or gives it back to where it is from.
struct FreeChunk {
  Spill* spill = nullptr;
  void operator()(char* bytes) const {
    if (spill != nullptr)
      spill->Give(bytes);
    else
      delete[] bytes;
  }
};

class Chunk {
 public:
  explicit Chunk(std::size_t room) : bytes_(new char[room]) {}
  // Has room for Spill::kPiece bytes, in the spill's file unless that is null or full.
  explicit Chunk(Spill* spill)
      : bytes_(spill == nullptr ? nullptr : spill->Take(), FreeChunk{spill}) {
    if (bytes_ == nullptr) bytes_ = {new char[Spill::kPiece], FreeChunk()};
  }

  char* data() { return bytes_.get(); }
  std::string_view view() const { return {bytes_.get(), size_}; }
  void resize(std::size_t size) { size_ = size; }

 private:
  std::unique_ptr<char[], FreeChunk> bytes_;
  std::size_t size_ = 0;
};

class Chunks {
 public:
  static constexpr std::size_t kMaxRecord = 64;

  Chunks() = default;
  // With `spill`, which may be null, full chunks are in its file.
  explicit Chunks(Spill* spill) : spill_(spill) {}

  // Where to write a record of at most kRoom bytes. A record never spans two chunks.
  char* WriteSpace() {
    if (static_cast<std::size_t>(end_ - at_) < kMaxRecord) AddChunk();
    return at_;
  }
  // The record that was written there ends before `end`.
  void Wrote(char* end) { at_ = end; }

  std::uint64_t size() const { return full_ + InLast(); }
  std::vector<std::string_view> all() const {
    std::vector<std::string_view> views;
    for (const Chunk& chunk : chunks_) views.push_back(chunk.view());
    if (!views.empty()) views.back() = {views.back().data(), InLast()};
    return views;
  }
  std::vector<Chunk> Release() && {
    EndChunk();
    return std::move(chunks_);
  }
  // Frees the room that the last chunk does not use.
  void Shrink() {
    if (chunks_.empty()) return;
    const std::size_t size = InLast();
    Chunk exact(size);
    std::memcpy(exact.data(), chunks_.back().data(), size);
    chunks_.back() = std::move(exact);
    at_ = end_ = chunks_.back().data() + size;
  }

 private:
  std::size_t InLast() const {
    return chunks_.empty() ? 0 : static_cast<std::size_t>(at_ - chunks_.back().view().data());
  }
  void EndChunk() {
    if (chunks_.empty()) return;
    chunks_.back().resize(InLast());
    full_ += InLast();
  }
  void AddChunk() {
    EndChunk();
    at_ = chunks_.emplace_back(spill_).data();
    end_ = at_ + Spill::kPiece;
  }

  Spill* spill_ = nullptr;
  std::vector<Chunk> chunks_;
  char *at_ = nullptr, *end_ = nullptr;  // The room of the last chunk.
  std::uint64_t full_ = 0;               // Bytes in all chunks but the last.
};

}  // namespace strobe::index
