// What is converted: traces of one run, on one clock.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "collector/xplane/space.h"

namespace strobe::convert {

struct WorkerTrace {
  std::string worker{};
  xplane::Space space{};
  // Nanoseconds from the zero of the whole to the zero of this trace, each worker's clock corrected
  // by its measured offset.
  std::int64_t shift_ns = 0;
};

// Takes the output piece by piece; the first failure ends the conversion.
using Sink = std::function<absl::Status(std::string_view)>;

// One number for both ends of an arrow, from XLA's type and id of a producer or consumer.
inline std::uint64_t FlowId(std::int64_t type, std::int64_t id) {
  return static_cast<std::uint64_t>(type) << 58 ^ static_cast<std::uint64_t>(id);
}

// Lines that hold one value per event instead of spans of time.
inline constexpr std::string_view kCounterLine = "_counters_";

}  // namespace strobe::convert
