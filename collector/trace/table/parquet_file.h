// Writes one table as a Parquet file.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace strobe::table {

// The values of one column, one for each row of a group. Of the first three arrays, the one of the
// column's type is used.
struct Column {
  std::span<const std::int64_t> integers{};
  std::span<const double> numbers{};
  std::span<const std::uint32_t> texts{};  // Places in `dictionary`.
  std::span<const std::string_view> dictionary{};
  std::span<const std::uint8_t> present{};  // 0 where a row has no value. Empty: each row has one.
};

class ParquetFile {
 public:
  // Takes the file piece by piece. The first failure ends it.
  using Sink = std::function<absl::Status(std::string_view)>;

  // `schema` is a message in Parquet's schema language with columns of int64, double and binary.
  // Columns of int64 are stored by their differences, texts once per group, all compressed by zstd.
  static absl::StatusOr<std::unique_ptr<ParquetFile>> Create(const std::string& schema, Sink sink);

  virtual ~ParquetFile() = default;
  // Writes a row group, with a column for each of the schema.
  virtual absl::Status Write(std::span<const Column> columns, std::size_t rows) = 0;
  // Completes the file.
  virtual absl::Status Finish() = 0;
};

}  // namespace strobe::table
