// How near this container is to its memory limit. C++ standard library and POSIX only; allocates
// nothing, because it is asked when memory is short.
#pragma once
#include <cstdint>

namespace strobe::wire {

struct MemoryUse {
  std::uint64_t used = 0;   // Bytes.
  std::uint64_t limit = 0;  // Bytes; 0 = none, or none that can be seen.

  // 0 when there is no limit.
  double share() const {
    return limit == 0 ? 0 : static_cast<double>(used) / static_cast<double>(limit);
  }
};

// Of the cgroup (version 1 or 2) that is nearest to its limit: this process's own, or one around
// it. Page cache that the kernel would drop first (inactive_file) is not counted as used, as the
// kubelet does not count it either. `root` is put before every path; for tests.
MemoryUse ReadMemoryUse(const char* root = "");

}  // namespace strobe::wire
