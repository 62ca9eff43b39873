// Writes one stream of a GPU as a line, with XLA's names and detail strings.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "agent/wire/device_records.h"
#include "collector/trace/xplane/builder.h"
#include "sidecar/source/device/device_activity.h"

namespace strobe::source {

// Returns the theoretical occupancy in percent; 0 if the device's limits are not known. Registers
// and shared memory are allocated by the rules of NVIDIA's occupancy calculator for compute
// capability 7.0 and newer.
double OccupancyPercent(const wire::KernelRecord& kernel, const wire::DeviceRecord& device);

// One operation of a stream.
struct StreamWork {
  // The name of a line lists the types of its operations; XProf looks for "Compute" there.
  enum Type : std::uint32_t {
    kCompute = 1,
    kMemcpyH2D = 2,
    kMemcpyD2H = 4,
    kMemcpyD2D = 8,
    kMemcpyP2P = 16,
    kMemcpyOther = 32,
    kMemset = 64,
    kMemoryAlloc = 128,
    kMemoryFree = 256
  };
  // The type for a CUpti_ActivityMemcpyKind.
  static Type CopyType(std::uint8_t kind);

  std::int64_t begin_ps = 0, end_ps = 0;
  Type type = kCompute;
  std::uint32_t index = 0;  // Index in the activity's list for this type.
};

// The frameworks' numbers for operations, by correlation.
class StreamLabels {
 public:
  explicit StreamLabels(const DeviceActivity& activity);
  // Null if there is no number.
  const std::uint64_t* External(std::uint32_t correlation) const;

 private:
  absl::flat_hash_map<std::uint32_t, std::uint64_t> externals_;
};

struct StreamLine {
  const DeviceActivity& activity;
  const StreamLabels& labels;
  const wire::DeviceRecord& device;
  std::int64_t line = 0;  // The line's id in the plane.
  std::uint32_t stream = 0;
  std::uint64_t correlation_base = 0;  // Added to the program's correlation numbers.
  std::string_view label{};            // Appended to the line's name; may be empty.
};

// Sorts `works` and adds the line to the plane.
void AddStreamLine(const StreamLine& line, std::vector<StreamWork>& works,
                   xplane::PlaneBuilder& plane);

}  // namespace strobe::source
