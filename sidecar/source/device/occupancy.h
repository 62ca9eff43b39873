// Computes the share of a GPU core's thread slots that a kernel can fill.
#pragma once
#include <cstdint>

#include "agent/wire/device_records.h"

namespace strobe {

// Returns the theoretical occupancy in percent; 0 if the device's limits are not known. Registers
// and shared memory are allocated by the rules of NVIDIA's occupancy calculator for compute
// capability 7.0 and newer.
double OccupancyPercent(const wire::KernelRecord& kernel, const wire::DeviceRecord& device);

}  // namespace strobe
