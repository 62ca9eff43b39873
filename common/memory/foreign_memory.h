// Protection against SIGBUS for memory that is mapped from a file which another process may
// truncate.
#pragma once
#include <signal.h>

#include <cstddef>

#include "absl/status/statusor.h"

namespace strobe {

// The kernel raises SIGBUS on access to a page that the mapped file no longer has, for example
// after a truncation or on a full file system. That would end the process. While an object of this
// class guards a mapping, such a page is replaced by a page of zeros and damaged() becomes true.
// Check damaged() after reading, and discard what was read if it is true.
//
// The first object installs a handler for SIGBUS. Signals for other addresses are passed to the
// handler that was installed before. Safe for concurrent use.
class ForeignMemory {
 public:
  // `data` is the result of mmap for `size` bytes. Destroy the object before unmapping.
  // ResourceExhausted if 16,384 objects exist already.
  static absl::StatusOr<ForeignMemory> Guard(void* data, std::size_t size, bool writable);
  ForeignMemory() = default;
  ForeignMemory(ForeignMemory&& other) noexcept { *this = static_cast<ForeignMemory&&>(other); }
  ForeignMemory& operator=(ForeignMemory&& other) noexcept;
  ~ForeignMemory();

  bool damaged() const;

 private:
  struct Slot;
  static Slot* Slots();  // An array of kMaxObjects slots.
  static bool OnFault(const siginfo_t& info);

  Slot* slot_ = nullptr;
};

}  // namespace strobe
