// The table `collectives` of one trace.
#pragma once
#include "collector/trace/digest/digest.h"
#include "collector/trace/table/parquet_file.h"

namespace strobe::table {

// Writes a row for each call of a collective that the digest tells, by arrival. `shift_ns` leads
// from the digest's times to Unix times on the clock that all workers share.
absl::Status WriteCollectiveTable(const Digest& digest, std::int64_t shift_ns,
                                  ParquetFile::Sink sink);

}  // namespace strobe::table
