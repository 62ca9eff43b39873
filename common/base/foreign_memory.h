// Memory mapped from a file that somebody else can truncate.
#pragma once
#include <cstddef>

#include "absl/status/statusor.h"

namespace strobe {

// The kernel raises SIGBUS for a page that a mapped file no longer has (it was truncated, or its
// file system is full), and that ends the process. While an object of this class guards a mapping,
// such a page is replaced by one of zeros, access goes on, and damaged() is true from then on. What
// was read before the last look at damaged() must then not be believed.
//
// Installs a handler for SIGBUS with the first object; signals that concern no guarded mapping
// reach the handler that was there before. Safe for concurrent use.
class ForeignMemory {
 public:
  // `data` is what mmap returned for `size` bytes. Destroy the object before the mapping.
  // ResourceExhausted beyond 16,384 objects.
  static absl::StatusOr<ForeignMemory> Guard(void* data, std::size_t size, bool writable);
  ForeignMemory() = default;
  ForeignMemory(ForeignMemory&& other) noexcept { *this = static_cast<ForeignMemory&&>(other); }
  ForeignMemory& operator=(ForeignMemory&& other) noexcept;
  ~ForeignMemory();

  bool damaged() const;

 private:
  struct Slot;
  static Slot* Slots();  // kMaxObjects of them.
  static void OnSignal(int number, void* info, void* context);

  Slot* slot_ = nullptr;
};

}  // namespace strobe
