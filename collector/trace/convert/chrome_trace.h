// Writes Chrome's trace event format, for chrome://tracing, Perfetto and speedscope.
#pragma once
#include <span>

#include "collector/trace/convert/traces.h"

namespace strobe::convert {

// Each plane becomes a process and each line a thread. A line whose events overlap becomes one
// thread per lane, because Perfetto drops events that do not nest. Stats become args, and the ids
// that xplane::FlowReader reads become flows. The value of a counter is its event's first number.
// Times are in microseconds, with all digits down to the picosecond. DataLoss when a trace is
// damaged, otherwise the sink's error.
absl::Status WriteChromeTrace(std::span<const WorkerTrace> traces, const Sink& sink);

}  // namespace strobe::convert
