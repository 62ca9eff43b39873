// What is converted: traces of one run, on one clock.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
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
  // That offset, worker's clock less ours, true within the error; none = it was never measured.
  std::int64_t clock_offset_ns = 0;
  std::optional<std::int64_t> clock_error_ns{};
};

// Takes the output piece by piece; the first failure ends the conversion.
using Sink = std::function<absl::Status(std::string_view)>;

}  // namespace strobe::convert
