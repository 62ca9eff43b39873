// The table `collectives` of one trace.
#pragma once
#include "collector/digest/digest.h"
#include "collector/table/parquet_file.h"

namespace strobe::table {

// Writes a row for each call of a collective that the digest tells, by arrival. `shift_ns` leads
// from the digest's times to Unix times on the clock that all workers share.
absl::Status WriteCollectiveTable(const Digest& digest, std::int64_t shift_ns,
                                  ParquetFile::Sink sink);

}  // namespace strobe::table
