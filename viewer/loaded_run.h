// A run with all of its indexes, on one clock: what every answer of the viewer is made from.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "collector/convert/align.h"
#include "collector/index/cache.h"

namespace strobe::viewer {

struct Worker {
  std::string name{};
  convert::OpenTrace trace{};
  xplane::Space space{};  // Its planes; their lines are read by whoever needs them.
  index::StoredIndex stored{};
  xplane::Space derived{};    // Of the index: lines that the trace itself does not hold.
  std::int64_t shift_ps = 0;  // From its own times to those of the run.
  std::int64_t clock_offset_ns = 0;
  std::optional<std::int64_t> clock_error_ns{};

  const index::Index& index() const { return stored.index(); }
  // DataLoss when a file that answers are made from was changed since it was opened.
  absl::Status Check() const {
    const absl::Status status = trace.Check();
    return status.ok() ? stored.Check() : status;
  }
};

// One line of one worker, as the page counts them: the number of a row is its place in `rows`.
struct RowRef {
  std::uint32_t worker = 0;
  std::uint32_t row = 0;  // Of the worker's index.
};

struct LoadedRun {
  std::string name{};
  std::vector<Worker> workers{};
  std::vector<RowRef> rows{};  // Devices before hosts, derived lines before the others.
  std::uint64_t events = 0;
  std::int64_t begin_ps = 0, end_ps = 0;  // Of the first and the last event, on the run's clock.
  std::int64_t zero_ns = 0;               // Unix time of the clock's zero; 0 = unknown.
  std::vector<std::string> warnings{};

  const Worker& WorkerOf(const RowRef& row) const { return workers[row.worker]; }
  const index::Row& RowOf(const RowRef& row) const {
    return workers[row.worker].index().rows()[row.row];
  }
  // Name of a row's line.
  std::string_view LineOf(std::uint32_t row) const {
    return WorkerOf(rows[row]).index().Text(RowOf(rows[row]).name);
  }
  // Of all workers. Asked after an answer was made, before it is given.
  absl::Status Check() const;
  // Number of a worker's row; every row has one.
  std::uint32_t NumberOf(std::uint32_t worker, std::uint32_t row) const;

  std::vector<std::vector<std::uint32_t>> numbers{};  // By worker and row.
};

struct Progress {
  std::atomic<std::uint64_t> done{0}, total{0};  // Events, of the traces that were opened so far.
  std::atomic<bool> stop{false};
};

// Indexes what is not indexed yet.
absl::StatusOr<LoadedRun> LoadRun(std::string name, std::vector<convert::OpenTrace> traces,
                                  const index::Cache& cache, std::size_t threads,
                                  Progress& progress);

// The page's list of rows and workers, as JSON.
std::string DescribeRun(const LoadedRun& run);

}  // namespace strobe::viewer
