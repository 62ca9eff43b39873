// Sums what devices did: kernels and other operations, collectives, and the scopes and programs
// that a device's lines tell.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "collector/trace/tally/row_table.h"
#include "collector/trace/tally/tally.h"

namespace strobe::tally {

// What is gathered from all planes.
struct Gathering {
  const Source& source;
  RowTable kernels{}, operators{}, modules{}, communication{};
  // By track of the index: whether its events are work of a device.
  std::vector<bool> is_work{};
  std::uint32_t reads = 0;

  // To be called for each event. Cancelled if nobody waits any more.
  absl::Status CheckGone() {
    constexpr std::uint32_t kEvery = 1 << 16;
    if (++reads % kEvery != 0 || !source.is_gone || !source.is_gone()) return absl::OkStatus();
    return absl::CancelledError("nobody waits for the tables any more");
  }
};

// The plane as far as the roles of its lines depend on it: without the lines that were derived.
xplane::Plane OutlineOf(const index::Index& index, const index::Plane& plane);

// Kinds of the rows of collectives: those of a device's times, and those of a call's.
inline constexpr std::string_view kOfDevice = "device", kOfHost = "host";

// Adds the work of all devices. If none tells of collectives, adds those that programs told
// themselves. DataLoss when the trace is damaged.
absl::Status AddDevices(Gathering& gathering);

}  // namespace strobe::tally
