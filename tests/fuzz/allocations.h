// Counts what this thread allocates by operator new, to check that small inputs do not use much
// memory.
#pragma once
#include <cstddef>

namespace strobe::fuzz {

// Counts from construction on.
class Allocations {
 public:
  Allocations();
  // Peak of allocated bytes since construction, minus what was allocated before.
  std::size_t peak() const;

 private:
  const std::size_t before_;
};

}  // namespace strobe::fuzz
