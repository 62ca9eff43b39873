// Writes the traces of a run as tables in Parquet files.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "collector/trace/convert/align.h"
#include "collector/trace/digest/digest.h"
#include "common/base/cancellation.h"

namespace strobe::table {

// One file of a table.
class Output {
 public:
  virtual ~Output() = default;
  virtual absl::Status Write(std::string_view piece) = 0;
  // Without this call nothing of the file is left behind.
  virtual absl::Status Finish() = 0;
};

// Opens the file of a table's rows: "events", "stats", "steps" and "collectives" have one per
// worker, "workers" has one for the run, and `worker` is empty then.
using OpenOutput = std::function<absl::StatusOr<std::unique_ptr<Output>>(std::string_view table,
                                                                         std::string_view worker)>;

// The table `stats` has a row per stat of an event, and is several times larger than all others.
struct Options {
  bool stats = true;
  // Gets the digest of each trace, in their order. Without it, digests are computed only of traces
  // with collectives, because that is a second pass over a trace.
  std::function<void(const digest::Digest&)> digested{};
  // Ends the work with Cancelled soon after it is set. May be null.
  const Cancellation* stop = nullptr;
};

// Reads each trace once for each table, and keeps none: memory is bounded by a group of rows.
// DataLoss with the worker's name when a trace is damaged, otherwise the output's error.
absl::Status WriteRunTables(const convert::AlignedTraces& traces, const Options& options,
                            const OpenOutput& open);

}  // namespace strobe::table
