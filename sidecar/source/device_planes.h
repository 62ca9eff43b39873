// GPU planes as XLA writes them, so that XProf's tools know them: a plane per device, a line per
// stream, and the stats and detail strings by which kernels, copies and launches are told apart.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "collector/xplane/builder.h"
#include "collector/xplane/names.h"
#include "sidecar/source/device_activity.h"

namespace strobe {

// The ring's ticks as picoseconds since the window began.
struct TickScale {
  std::uint64_t ticks = 0;
  std::int64_t ps = 0;  // At those ticks.
  double ps_per_tick = 1;

  std::int64_t Ps(std::uint64_t at) const {
    const auto since = static_cast<std::int64_t>(at - ticks);
    return ps + static_cast<std::int64_t>(static_cast<double>(since) * ps_per_tick);
  }
};

// What is shown of one program.
struct DeviceTrace {
  const DeviceActivity& activity;
  DeviceClock clock;
  TickScale scale{};
  std::string label{};  // Tells its lines from other programs'; empty when it is the only one.
};

// A call of CUDA, for its thread's line.
struct HostCall {
  std::int64_t begin_ps = 0, end_ps = 0;
  std::string_view name{};        // The activity's.
  std::uint64_t correlation = 0;  // As the device's events have it; 0 = none of them has it.
  std::uint32_t device = 0, context = 0;
};

class DevicePlanes {
 public:
  // Events are kept that lie within [0, length) of the window.
  explicit DevicePlanes(std::int64_t length_ps) : length_ps_(length_ps) {}

  // One more program. Returns its calls by thread, in the order of their times. Devices that
  // programs share (as their UUIDs tell) share a plane; other programs' device 0 gets a free
  // number.
  std::map<std::uint32_t, std::vector<HostCall>> Add(const DeviceTrace& trace);

  // Fields of an XSpace. Ends the building.
  std::string Encode();

 private:
  struct Plane {
    std::string uuid;
    wire::DeviceRecord device{};
    xplane::PlaneBuilder builder;
    std::size_t programs = 0;
  };

  std::uint32_t PlaneOf(const wire::DeviceRecord& device, std::string_view name);
  void AddStreams(const DeviceTrace& trace, const std::map<std::uint32_t, std::uint32_t>& planes);
  void AddRanges(const DeviceTrace& trace);

  const std::int64_t length_ps_;
  std::map<std::uint32_t, Plane> planes_;  // By number.
  xplane::PlaneBuilder ranges_{xplane::kNvtxPlane};
  bool has_ranges_ = false;
  std::uint64_t programs_ = 0;
};

}  // namespace strobe
