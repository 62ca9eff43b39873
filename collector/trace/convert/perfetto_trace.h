// Writes Perfetto's native format, for ui.perfetto.dev and trace_processor.
#pragma once
#include <span>

#include "collector/trace/convert/traces.h"

namespace strobe::convert {

// Each plane becomes a process and each line a thread. A line whose events overlap gets further
// tracks of the same name, because slices of one track must nest. A line of counters becomes one
// track per counter, whose value is its event's first number. Stats become debug annotations, and
// the ids that xplane::FlowReader reads become flows. Times are rounded down to nanoseconds, which
// is Perfetto's unit. DataLoss when a trace is damaged, otherwise the sink's error.
absl::Status WritePerfettoTrace(std::span<const WorkerTrace> traces, const Sink& sink);

}  // namespace strobe::convert
