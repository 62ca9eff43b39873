// Merges the traces of many workers into one XSpace.
#pragma once
#include <span>

#include "collector/convert/traces.h"

namespace strobe::convert {

// Each plane is renamed to "<plane> [<worker>]" and its lines are shifted, so that any reader of
// XSpaces shows all workers on one clock. `zero_ns` is the Unix time from which the workers' shifts
// count; 0 = not known. Errors are those of damaged traces (DataLoss) and of the sink.
absl::Status WriteMergedSpace(std::span<const WorkerTrace> traces, std::int64_t zero_ns,
                              const Sink& sink);

}  // namespace strobe::convert
