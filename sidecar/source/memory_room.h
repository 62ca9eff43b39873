// A trace must not cost the sidecar its life.
#pragma once
#include <cstdint>

namespace strobe {

// How many bytes may be taken in when `copies` of them are held at once, so that this process stays
// below its own memory limit; the largest number when it has none.
std::uint64_t MemoryRoom(std::uint64_t copies);

}  // namespace strobe
