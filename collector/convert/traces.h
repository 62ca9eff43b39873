// The input and output of conversions.
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

// One worker's trace, on the clock that all traces of the run share.
struct WorkerTrace {
  std::string worker{};
  xplane::Space space{};
  // From the zero of all traces to the zero of this one, in ns, with the clock offset corrected.
  std::int64_t shift_ns = 0;
  std::int64_t clock_offset_ns = 0;              // Worker clock minus operator clock, in ns.
  std::optional<std::int64_t> clock_error_ns{};  // Half-width of its error interval; nullopt: not
                                                 // measured.
  // The time that the capture asked for, as Unix times on the operator's clock, in ns; both 0 when
  // the trace does not tell.
  std::int64_t window_begin_ns = 0, window_end_ns = 0;
};

// Takes the output piece by piece. The first failure ends the conversion.
using Sink = std::function<absl::Status(std::string_view)>;

}  // namespace strobe::convert
