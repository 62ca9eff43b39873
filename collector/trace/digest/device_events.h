// Reads what one device did: all of its streams at the same time, in the order of time, so that
// nothing but the current moment is kept in memory.
#pragma once
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/trace/digest/host_events.h"
#include "collector/trace/digest/time_sweep.h"

namespace strobe::digest {

// Reads a device's plane: what is known of the device but its times, what it adds to `gathered`,
// and when it worked. `number` is its number in the digest. DataLoss when the plane is damaged.
absl::StatusOr<TimeSweep> ReadDevice(const xplane::Plane& plane, std::uint32_t number,
                                     Gathered& gathered, const SweepPlan& plan, Device& device);

// Like ReadDevice, for the work of runtimes that compute on the host.
TimeSweep ReadHostWork(const std::vector<std::vector<HostWork>>& lines, const SweepPlan& plan,
                       Device& device);

}  // namespace strobe::digest
