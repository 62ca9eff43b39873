// Memory that may be anything: a read of a wrong address fails instead of ending the process.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strobe::agent {

class MemoryView {
 public:
  virtual ~MemoryView() = default;
  // False unless all the bytes could be read.
  virtual bool Read(std::uint64_t at, void* to, std::size_t size) const = 0;

  template <typename Value>
  bool Get(std::uint64_t at, Value& value) const {
    return at != 0 && Read(at, &value, sizeof value);
  }
};

// The memory of this process, read through the kernel: by process_vm_readv, or by /proc/self/mem
// where seccomp refuses that. Neither needs a capability.
//
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
