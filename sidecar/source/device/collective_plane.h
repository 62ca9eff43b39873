// Builds the plane with the collectives that programs told through the library's profiler plugin: a
// line per communicator with the program's calls, and one with the devices' times where these were
// measured. Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/wire/collective_file.h"
#include "collector/trace/xplane/builder.h"
#include "collector/trace/xplane/names.h"
#include "sidecar/source/base/tick_timeline.h"

namespace strobe::source {

// The collectives of one program, as read from the file in which it tells them.
struct CollectiveActivity {
  wire::CollectiveLibrary library{};
  std::vector<wire::CommunicatorCopy> communicators{};
  std::vector<wire::CollectiveCopy> calls{};  // By number.
  std::uint64_t lost = 0;                     // Calls that were overwritten or did not fit.

  // Calls of communicators for which the program's file had no entry left.
  std::uint64_t WithoutEntry() const;
};

// The collectives of one program.
struct CollectiveTrace {
  const CollectiveActivity& activity;
  TickScale scale{};
  std::int64_t start_ns = 0;  // CLOCK_MONOTONIC at the window's begin.
  std::string label{};        // See DeviceTrace::label.
};

class CollectivePlane {
 public:
  // Keeps events within [0, length_ps) of the window.
  explicit CollectivePlane(std::int64_t length_ps) : length_ps_(length_ps) {}

  void Add(const CollectiveTrace& trace);
  // Returns a serialized field of an XSpace; empty if there is nothing. Call it once, at the end.
  std::string Encode();

 private:
  // `device_offset`: CLOCK_MONOTONIC minus the device's clock, for the line of the devices' times.
  void AddLine(const CollectiveTrace& trace, const wire::CommunicatorCopy& group,
               const std::vector<wire::CollectiveCopy>& calls,
               std::optional<std::int64_t> device_offset);

  const std::int64_t length_ps_;
  xplane::PlaneBuilder builder_{xplane::kCollectivesPlane};
  std::int64_t lines_ = 0;
};

}  // namespace strobe::source
