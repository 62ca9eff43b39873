#include "sidecar/source/base/memory_headroom.h"

#include <algorithm>
#include <limits>

#include "agent/wire/cgroup_memory.h"

namespace strobe::source {

std::uint64_t MemoryHeadroom(std::uint64_t copies) {
  const wire::MemoryUse use = wire::ReadMemoryUse();
  if (use.limit == 0) return std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t left = use.limit - std::min(use.used, use.limit);
  // A tenth is left for everything else.
  return left / 10 * 9 / std::max<std::uint64_t>(copies, 1);
}

}  // namespace strobe::source
