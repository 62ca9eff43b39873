// The mapped memory of a ring file: its header, and where its rings lie. For the program and for
// the sidecar. POSIX and the C++ standard library only; no exceptions.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "agent/wire/layout.h"

namespace strobe::wire {

struct RingFileShape {
  std::uint32_t max_rings = 512;  // The number of threads that can record at the same time.
  // Words per ring; the default is 512 KiB. Rounded up to a power of two and whole blocks.
  std::uint64_t ring_words = 1ull << 16;
  // Words in the device ring; the default is 16 MiB. Rounded up likewise.
  std::uint64_t device_words = 1ull << 21;
};

// The reason why a file cannot be read.
enum class RingFileError {
  kNone,
  kUnreadable,    // It could not be opened or mapped.
  kNotOurs,       // It is not a ring file, or not complete yet.
  kOtherVersion,  // Another version of the agent wrote it.
  kDamaged        // Its header does not match its size.
};

// Where the rings lie in a file. Offsets and strides are in bytes.
struct RingLayout {
  std::uint32_t max_rings = 0;
  std::uint64_t ring_words = 0, ring_stride = 0, rings_offset = 0;
  std::uint64_t device_words = 0, device_offset = 0;

  static RingLayout Of(const RingFileShape& shape);
  std::uint64_t ring_offset(std::uint32_t index) const {
    return rings_offset + index * ring_stride;
  }
  std::uint64_t device_bytes() const;
  std::uint64_t file_bytes() const { return device_offset + device_bytes(); }
  bool Fits(std::uint64_t size) const;  // In a file of this size.
};

// If somebody truncates the file, access to a lost page raises SIGBUS; a sidecar guards the mapping
// against this (common/memory/foreign_memory.h).
class RingMemory {
 public:
  RingMemory() = default;
  ~RingMemory() { Unmap(); }
  RingMemory(RingMemory&& other) noexcept { *this = static_cast<RingMemory&&>(other); }
  RingMemory& operator=(RingMemory&& other) noexcept;

  explicit operator bool() const { return header_ != nullptr; }
  FileHeader* header() const { return header_; }
  void* memory() const { return header_; }
  std::size_t size() const { return size_; }
  // Checks that it is a ring file whose header matches its size. Until it returns kNone, only
  // memory() and size() may be used.
  RingFileError Check();

  std::uint32_t max_rings() const { return layout_.max_rings; }
  std::uint64_t ring_words() const { return layout_.ring_words; }
  std::uint64_t device_words() const { return layout_.device_words; }
  RingHeader* ring(std::uint32_t index) const;
  std::atomic<std::uint64_t>* data(std::uint32_t index) const;
  RingHeader* device_ring() const;
  std::atomic<std::uint64_t>* device_data() const;

  // Wakes the program's thread that waits on device_control, if there is one.
  void WakeProgram() const;
  // Requests a level on behalf of `wisher`; 0 withdraws the request.
  void Wish(Wisher wisher, std::uint32_t level) const;
  // The program's name for itself. It may contain arbitrary bytes.
  std::string ProgramName() const;
  // The name of the ring file of the program that this one was forked from. Empty if there is none.
  std::string ForkedFrom() const;

 protected:
  const RingLayout& layout() const { return layout_; }
  bool MapOpened(int fd, std::size_t size);
  // Maps a file that has no content yet, and writes the layout into its header.
  bool MapNew(int fd, const RingLayout& layout);
  // Maps a file of this size at the address of this one.
  bool MapInPlace(int fd);
  // Moves `other` to the address of this memory. False if it is null or has another size; the
  // address range then becomes private, zeroed memory.
  bool ReplaceMemoryBy(RingMemory& other);
  void Unmap();

 private:
  std::size_t size_ = 0;
  FileHeader* header_ = nullptr;
  // A copy of the header's values, because other processes can change the file.
  RingLayout layout_;
};

}  // namespace strobe::wire
