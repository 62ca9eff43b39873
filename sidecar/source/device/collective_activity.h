// The collectives of one program, as read from the file in which it tells them.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "agent/wire/collective_file.h"

namespace strobe {

struct CollectiveActivity {
  wire::CollectiveLibrary library{};
  std::vector<wire::CommunicatorCopy> communicators{};
  std::vector<wire::CollectiveCopy> calls{};  // By number.
  std::uint64_t lost = 0;                     // Calls that were overwritten or did not fit.

  bool HasDeviceTimes() const {
    return std::any_of(calls.begin(), calls.end(),
                       [](const wire::CollectiveCopy& call) { return call.has_device_times(); });
  }
  // CLOCK_MONOTONIC minus the clock of a communicator's device, in ns; nullopt if it is not known.
  // The program learns of the end of each call a little later: the shortest delay tells the most.
  std::optional<std::int64_t> DeviceOffset(std::uint16_t communicator) const {
    std::optional<std::int64_t> offset;
    for (const wire::CollectiveCopy& call : calls) {
      if (call.key.communicator != communicator || !call.has_device_times()) continue;
      // Both count ns and may be forged; the difference wraps around.
      const auto seen = static_cast<std::int64_t>(call.end_seen_ns - call.device_end);
      offset = std::min(offset.value_or(seen), seen);
    }
    return offset;
  }
};

}  // namespace strobe
