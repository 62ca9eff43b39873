// The input and output of conversions.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "collector/trace/xplane/space.h"
#include "common/base/saturated.h"

namespace strobe::convert {

// One worker's trace, on the clock that all traces of the run share.
struct WorkerTrace {
  std::string worker{};
  xplane::Space space{};
  // From the zero of all traces to the zero of this one, in ns, with the clock offset corrected.
  std::int64_t shift_ns = 0;
  // The zero of this trace, as a Unix time on the worker's clock in ns; 0 when it does not tell.
  // The time stamps of `space` count from it, also where the trace's bytes have Unix times.
  std::int64_t zero_ns = 0;
  std::int64_t clock_offset_ns = 0;  // Worker clock minus operator clock, in ns.
  // Half-width of the offset's error interval; nullopt: not measured.
  std::optional<std::int64_t> clock_error_ns{};
  // The time that the capture asked for, as Unix times on the operator's clock, in ns; both 0 when
  // the trace does not tell.
  std::int64_t window_begin_ns = 0, window_end_ns = 0;
  std::size_t trace = 0;  // The place of its trace among those that were aligned.
  std::string role{};     // What it does in its service, such as "prefill"; empty = not told.
};

// Moves a time of a trace to the clock that all traces share, in whole ns, rounded down. In ps it
// would overflow if the traces began months apart.
inline std::int64_t SharedNanos(std::int64_t ps, std::int64_t shift_ns) {
  return AddSaturated(ps / 1000 - (ps % 1000 < 0 ? 1 : 0), shift_ns);
}

// Takes the output piece by piece. The first failure ends the conversion.
using Sink = std::function<absl::Status(std::string_view)>;

}  // namespace strobe::convert
