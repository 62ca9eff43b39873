// The file of one process, from either end. C++ standard library and POSIX only; no exceptions.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "sidecar/wire/layout.h"

namespace strobe::wire {

struct RingFileShape {
  std::uint32_t most_rings = 512;         // Threads that may record at one time.
  std::uint64_t ring_words = 1ull << 16;  // 512 KiB; rounded up to a power of two and whole blocks.
  std::uint64_t device_words = 1ull << 21;  // 16 MiB of what devices did; as above.
};

// A mapped file; the layout behind it has been checked.
class RingFile {
 public:
  RingFile() = default;
  ~RingFile() { Close(); }
  RingFile(RingFile&& other) noexcept { *this = static_cast<RingFile&&>(other); }
  RingFile& operator=(RingFile&& other) noexcept;
  RingFile(const RingFile&) = delete;
  RingFile& operator=(const RingFile&) = delete;

  // The program's end: a fresh file "<directory>/<pid>-<time>.rings", which stays locked while the
  // process lives. With $STROBE_CONTAINER the name begins with "<container>@". Null file on
  // failure, errno says why.
  static RingFile Create(const std::string& directory, const RingFileShape& shape);
  // The sidecar's end. Null file when this is no file of ours, of another version, or its numbers
  // do not fit its size.
  static RingFile Open(const std::string& path);

  explicit operator bool() const { return header_ != nullptr; }
  FileHeader* header() const { return header_; }
  const std::string& path() const { return path_; }
  std::uint32_t most_rings() const { return most_rings_; }
  std::uint64_t ring_words() const { return ring_words_; }
  RingHeader* ring(std::uint32_t index) const;
  std::atomic<std::uint64_t>* data(std::uint32_t index) const;
  RingHeader* device_ring() const;
  std::atomic<std::uint64_t>* device_data() const;
  std::uint64_t device_words() const { return device_words_; }
  // Makes sure that writing to a ring cannot fail for want of space: a program must not be killed
  // because a disk is full. False when there is none.
  bool Reserve(std::uint32_t index) const;
  bool ReserveDevice() const;
  // Does the program that made it still run?
  bool ProgramLives() const;
  // As it called itself; not trusted to be text.
  std::string ProgramName() const;
  // The program's thread that waits on device_control, if there is one, looks at the header anew.
  void WakeProgram() const;
  void Close();
  // Puts `other` at the very addresses of this one, which is given up: pointers into it then point
  // into the other. Without another file there is private memory with nothing in it. Both have one
  // shape.
  void ReplaceBy(RingFile other);

 private:
  bool Map(std::size_t size);

  std::string path_;
  int fd_ = -1;
  std::size_t size_ = 0;
  FileHeader* header_ = nullptr;
  // Copies: what lies in the file may be changed by whoever can write to it.
  std::uint32_t most_rings_ = 0;
  std::uint64_t ring_words_ = 0, ring_stride_ = 0, rings_offset_ = 0;
  std::uint64_t device_words_ = 0, device_offset_ = 0;
};

// The container that a ring file's program says it is in, by the file's name; empty when it does
// not say.
std::string ContainerOf(const std::string& path);

}  // namespace strobe::wire
