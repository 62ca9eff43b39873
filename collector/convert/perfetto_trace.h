// Perfetto's native format, for ui.perfetto.dev and trace_processor.
#pragma once
#include <span>

#include "collector/convert/traces.h"

namespace strobe::convert {

// A process per plane, a thread per line; where events overlap, sibling tracks of the same name,
// because slices of one track must nest. Stats are debug annotations, producers and consumers
// flows. Perfetto's times are whole nanoseconds.
absl::Status WritePerfettoTrace(std::span<const WorkerTrace> traces, const Sink& sink);

}  // namespace strobe::convert
