// Reads how close this container is to its memory limit. Uses only POSIX and the C++ standard
// library. Allocates no memory, because it is called when memory is short.
#pragma once
#include <cstdint>

namespace strobe::wire {

struct MemoryUse {
  std::uint64_t used = 0;   // Bytes.
  std::uint64_t limit = 0;  // Bytes; 0 if there is no visible limit.

  // Used memory as a fraction of the limit; 0 if there is no limit.
  double share() const {
    return limit == 0 ? 0 : static_cast<double>(used) / static_cast<double>(limit);
  }
};

// Returns the use of the cgroup (version 1 or 2) that is closest to its limit: this process's own
// or one above it. Page cache that the kernel would drop first (inactive_file) does not count as
// used, as in the kubelet. `root` is a prefix for all paths; for tests.
MemoryUse ReadMemoryUse(const char* root = "");

}  // namespace strobe::wire
