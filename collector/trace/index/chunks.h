// A buffer of bytes that grows by chunks, so that what is written is never copied. A string that
// doubles would spend more time on getting memory than the index takes to make.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/base/file_descriptor.h"
#include "common/base/mutex.h"

namespace strobe::index {

// Room for data in a file without a name. Where memory is short, the kernel writes it out, which it
// cannot do with other memory. Safe for concurrent use. Must outlive what it gives out.
class Spill {
 public:
  static constexpr std::size_t kPiece = 128 << 10;

  // The file is in `directory`, and gone when this object is.
  static absl::StatusOr<std::unique_ptr<Spill>> Create(const std::string& directory);
  ~Spill();
  Spill(const Spill&) = delete;
  Spill& operator=(const Spill&) = delete;

  // Room for kPiece bytes; null if the disk is full.
  char* Take();
  // Takes such room back.
  void Give(char* piece);

 private:
  explicit Spill(FileDescriptor file) : file_(std::move(file)) {}
  void AddSegment() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const FileDescriptor file_;
  Mutex mutex_;
  std::vector<char*> segments_ ABSL_GUARDED_BY(mutex_);
  std::vector<char*> free_ ABSL_GUARDED_BY(mutex_);
  bool full_ ABSL_GUARDED_BY(mutex_) = false;
};

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
  static constexpr std::size_t kFirst = 512;  // Small, because a trace may have many short tracks.

  Chunks() = default;
  // With `spill`, which may be null, full chunks but the first are in its file.
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
    const bool first = chunks_.empty();
    chunks_.push_back(first ? Chunk(kFirst) : Chunk(spill_));
    at_ = chunks_.back().data();
    end_ = at_ + (first ? kFirst : Spill::kPiece);
  }

  Spill* spill_ = nullptr;
  std::vector<Chunk> chunks_;
  char *at_ = nullptr, *end_ = nullptr;  // The room of the last chunk.
  std::uint64_t full_ = 0;               // Bytes in all chunks but the last.
};

}  // namespace strobe::index
