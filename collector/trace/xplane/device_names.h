// Tells copies and fills of a device's memory from computations, and calls of a device's runtime
// from what else the host does, by the names that profilers of different vendors give them. For all
// readers: the conversion of other formats, the digest, and what is made of it. Pure.
#pragma once
#include <cstdint>
#include <string_view>

namespace strobe::xplane {

enum class MemoryWork : std::uint8_t {
  kNone,  // Neither a copy nor a fill.
  kHostToDevice,
  kDeviceToHost,
  kDeviceToDevice,
  kPeerToPeer,
  kOtherCopy,
  kFill,
};

// What work on a device is, by its name. A kernel of a program that copies, such as PyTorch's
// `direct_copy_kernel`, is a computation: it keeps the device's cores from other work.
MemoryWork MemoryWorkOf(std::string_view name);

// Whether all work of this line is copies and fills, as "Stream #8(MemcpyD2H,Memset)" tells it.
bool HoldsOnlyMemoryWork(std::string_view line);

// What the category of an event in Chrome's format tells, such as "gpu_memcpy" or "MLU_MEMSET";
// the direction is in the event's name. kNone for all others.
MemoryWork MemoryWorkOfCategory(std::string_view category);

// Whether the host's events of this category, as Kineto writes it, are calls of a device's runtime
// or driver: "cuda_runtime", "cuda_driver"; before PyTorch 1.12 "Runtime".
bool IsRuntimeCategory(std::string_view category);

}  // namespace strobe::xplane
