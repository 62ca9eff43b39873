// Writes Chrome's trace event format, for chrome://tracing, Perfetto and speedscope.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "collector/trace/convert/traces.h"

namespace strobe::convert {

// Appends the text as a JSON string, with quotes. Bytes that are not UTF-8 become U+FFFD, so that
// any trace results in valid JSON. '<' is escaped, so that the result can be embedded in an HTML
// page.
void AppendJsonText(std::string_view text, std::string& out);

// Each plane becomes a process and each line a thread. A line whose events overlap becomes one
// thread per lane, because Perfetto drops events that do not nest. Stats become args, and the ids
// that xplane::FlowReader reads become flows. The value of a counter is its event's first number.
// Times are in microseconds, with all digits down to the picosecond. DataLoss when a trace is
// damaged, otherwise the sink's error.
absl::Status WriteChromeTrace(std::span<const WorkerTrace> traces, const Sink& sink);

}  // namespace strobe::convert
