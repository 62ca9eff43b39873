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

}  // namespace strobe::agent
