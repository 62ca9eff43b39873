// How much of a GPU core's thread slots a kernel can fill.
#pragma once
#include <cstdint>

#include "agent/wire/device_records.h"

namespace strobe {

// Theoretical occupancy in percent, 0 when the device's limits are not known. The rules by which
// registers and shared memory are handed out are those of NVIDIA's occupancy calculator for compute
// capability 7.0 and newer.
double OccupancyPercent(const wire::KernelRecord& kernel, const wire::DeviceRecord& device);

}  // namespace strobe
