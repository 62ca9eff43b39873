// Merges the traces of many workers into one XSpace.
#pragma once
#include "collector/trace/convert/align.h"

namespace strobe::convert {

// Each plane is renamed to "<plane> [<worker>]" and its lines are shifted, so that any reader of
// XSpaces shows all workers on one clock. Warnings name the workers that were left out. Errors are
// those of damaged traces (DataLoss) and of the sink.
absl::Status WriteMergedSpace(const AlignedTraces& traces, const Sink& sink);

}  // namespace strobe::convert
