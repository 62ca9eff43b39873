// The tables `steps` and `workers`, which are small.
#pragma once
#include <span>

#include "collector/trace/convert/traces.h"
#include "collector/trace/table/parquet_file.h"

namespace strobe::table {

// The training steps of one trace, ordered by start. DataLoss if the trace is damaged, otherwise
// the sink's error.
absl::Status WriteStepTable(const convert::WorkerTrace& trace, std::int64_t zero_ns,
                            ParquetFile::Sink sink);

// How many calls of collectives the table `collectives` has of a worker, and how many it lacks.
struct CollectiveCount {
  std::uint64_t rows = 0, left_out = 0;
};

// What is known of each worker's clock and window. `collectives` has an element for each trace.
absl::Status WriteWorkerTable(std::span<const convert::WorkerTrace> traces,
                              std::span<const CollectiveCount> collectives, ParquetFile::Sink sink);

}  // namespace strobe::table
