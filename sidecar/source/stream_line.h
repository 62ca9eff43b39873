// One stream of a GPU as a line, with XLA's names and detail strings for what a stream does.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "collector/xplane/builder.h"
#include "sidecar/source/device_activity.h"

namespace strobe {

// One thing that a stream did.
struct StreamWork {
  // A line carries in its name what its stream had to do; XProf looks for "Compute" there.
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
  // Of a CUpti_ActivityMemcpyKind.
  static Type CopyType(std::uint8_t kind);

  std::int64_t begin_ps = 0, end_ps = 0;
  Type type = kCompute;
  std::uint32_t index = 0;  // In the activity's list of its type.
};

// What frameworks said that calls belong to, by correlation.
class StreamLabels {
 public:
  explicit StreamLabels(const DeviceActivity& activity);
  // Null when nobody said anything.
  const std::uint64_t* External(std::uint32_t correlation) const;

 private:
  std::unordered_map<std::uint32_t, std::uint64_t> externals_;
};

struct StreamLine {
  const DeviceActivity& activity;
  const StreamLabels& labels;
  const wire::DeviceRecord& device;
  std::int64_t line = 0;  // Its id in the plane.
  std::uint32_t stream = 0;
  std::uint64_t correlation_base = 0;  // Added to the program's numbers.
  std::string_view label{};            // Behind the line's name; may be empty.
};

// Sorts `works`, and adds the line to the plane.
void AddStreamLine(const StreamLine& line, std::vector<StreamWork>& works,
                   xplane::PlaneBuilder& plane);

}  // namespace strobe
