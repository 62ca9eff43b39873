// Sums what the host's threads did: operators and modules, with the work that they launched on
// devices, and collectives of the host.
#pragma once
#include "absl/status/statusor.h"
#include "collector/trace/tally/device_tally.h"

namespace strobe::tally {

// To be called after AddDevices, whose kernels learn which operator launched them. True if any work
// is known to be launched by an operator or a module. DataLoss when the trace is damaged.
absl::StatusOr<bool> AddHost(Gathering& gathering);

}  // namespace strobe::tally
