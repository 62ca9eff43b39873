// In place of parquet_file.cc, for builds without Rust.
#include "collector/trace/table/parquet_file.h"

namespace strobe::table {

absl::StatusOr<std::unique_ptr<ParquetFile>> ParquetFile::Create(const std::string& /*schema*/,
                                                                 Sink /*sink*/) {
  return absl::FailedPreconditionError(
      "cannot write a Parquet file: this program was built without Parquet, as `make demo` does; "
      "`make` builds it with that");
}

}  // namespace strobe::table
