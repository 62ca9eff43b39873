// Builds GPU planes in XLA's format, which XProf's tools expect: a plane per device, a line per
// stream, and the stats by which kernels, copies and launches are recognized.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "collector/trace/xplane/builder.h"
#include "collector/trace/xplane/names.h"
#include "sidecar/source/base/tick_timeline.h"
#include "sidecar/source/device/collective_plane.h"
#include "sidecar/source/device/device_activity.h"

namespace strobe::source {

// The device activity of one program.
struct DeviceTrace {
  const DeviceActivity& activity;
  DeviceClock clock;
  TickScale scale{};
  // Distinguishes its lines from other programs'; empty if it is the only one.
  std::string label{};
};

// A call of CUDA, to be shown on its thread's line.
struct HostCall {
  std::int64_t begin_ps = 0, end_ps = 0;
  std::string_view name{};  // Refers to the activity's text.
  // Equal to that of the device events it caused; 0 if there are none.
  std::uint64_t correlation = 0;
  std::uint32_t device = 0, context = 0;
};

class DevicePlanes {
 public:
  // Keeps events within [0, length_ps) of the window.
  explicit DevicePlanes(std::int64_t length_ps) : length_ps_(length_ps), collectives_(length_ps) {}

  // Adds a program. Returns its CUDA calls by thread, sorted by time. Programs that use the same
  // device, as determined by its UUID, share a plane. A different device with an ordinal that is
  // taken gets a free number.
  std::map<std::uint32_t, std::vector<HostCall>> Add(const DeviceTrace& trace);

  // Adds what a program told of its collectives.
  void AddCollectives(const CollectiveTrace& trace) { collectives_.Add(trace); }

  // Returns serialized fields of an XSpace. Call it once, at the end.
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
  std::map<std::uint32_t, Plane> planes_;  // By plane number.
  CollectivePlane collectives_;
  xplane::PlaneBuilder ranges_{xplane::kNvtxPlane};
  bool has_ranges_ = false;
  std::uint64_t programs_ = 0;
};

}  // namespace strobe::source
