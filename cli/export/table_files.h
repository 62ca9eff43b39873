// Writes the tables of a run as files in a directory.
#pragma once
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "collector/trace/table/run_tables.h"

namespace strobe::cli {

// The files are <directory>/<table>/run=<run>/worker=<worker>/<table>.parquet, which engines read
// as tables with the columns run and worker ("Hive partitioning"). Characters that a path cannot
// have are percent-encoded. A file appears when it is complete, and replaces one of the same run
// and worker. An empty `run` becomes "run". Sets `written` to the bytes of all files.
absl::Status WriteTableFiles(const convert::AlignedTraces& traces, const std::string& run,
                             const std::string& directory, const table::Options& options,
                             std::uint64_t& written);

}  // namespace strobe::cli
