// The memory of this process, read through the kernel: by process_vm_readv, or by /proc/self/mem
// where seccomp refuses that. Neither needs a capability.
#pragma once
#include "agent/evidence/memory_view.h"

namespace strobe::agent {

// Used by one thread, and only for a moment: a program may close descriptors that are not its own.
class OwnMemory final : public MemoryView {
 public:
  OwnMemory() = default;
  ~OwnMemory() override;
  OwnMemory(const OwnMemory&) = delete;
  OwnMemory& operator=(const OwnMemory&) = delete;

  bool Read(std::uint64_t at, void* to, std::size_t size) const override;

 private:
  bool ReadFile(std::uint64_t at, void* to, std::size_t size) const;

  mutable bool call_is_refused_ = false;
  mutable int file_ = -1;
};

}  // namespace strobe::agent
