// The tables `steps` and `workers`, which are small.
#pragma once
#include <span>

#include "collector/convert/traces.h"
#include "collector/table/parquet_file.h"

namespace strobe::table {

// The training steps of one trace, ordered by start. DataLoss if the trace is damaged, otherwise
// the sink's error.
absl::Status WriteStepTable(const convert::WorkerTrace& trace, std::int64_t zero_ns,
                            ParquetFile::Sink sink);

// What is known of each worker's clock and window.
absl::Status WriteWorkerTable(std::span<const convert::WorkerTrace> traces, ParquetFile::Sink sink);

}  // namespace strobe::table
