// Limits traces in memory, so that the sidecar stays below its memory limit.
#pragma once
#include <cstdint>

namespace strobe::source {

// The largest size in bytes of which `copies` fit into the rest of this process's memory limit. The
// largest integer if there is no limit.
std::uint64_t MemoryHeadroom(std::uint64_t copies);

}  // namespace strobe::source
