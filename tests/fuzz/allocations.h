// What this thread allocates through operator new: small bytes must not become large memory.
#pragma once
#include <cstddef>

namespace strobe::fuzz {

// From construction on.
class Allocations {
 public:
  Allocations();
  // The most that was held at once, beyond what was held at the beginning.
  std::size_t peak() const;

 private:
  const std::size_t before_;
};

}  // namespace strobe::fuzz
