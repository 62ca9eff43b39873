// Chrome's trace event format, for chrome://tracing, Perfetto and speedscope.
#pragma once
#include <span>

#include "collector/convert/traces.h"

namespace strobe::convert {

// A process per plane, a thread per line (and per lane where events overlap: Perfetto drops what
// does not nest), all stats as args, producers and consumers as flows. Times in microseconds with
// all digits down to the picosecond.
absl::Status WriteChromeTrace(std::span<const WorkerTrace> traces, const Sink& sink);

}  // namespace strobe::convert
