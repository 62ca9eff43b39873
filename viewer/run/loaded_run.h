// A run in memory: its traces and their indexes, on one clock. All of the viewer's answers are made
// from it. But for `steps`, `tables` and `alignments`, it does not change once it is loaded, so
// that threads share it without a lock.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "collector/trace/convert/align.h"
#include "collector/trace/index/cache.h"
#include "common/base/mutex.h"

namespace strobe::viewer {

// One worker's share of a step. Times are picoseconds on the run's clock.
struct StepPart {
  std::uint32_t worker = 0;
  std::int64_t begin_ps = 0, end_ps = 0;
};

struct ComparedStep {
  std::string name{};
  std::int64_t number = 0;
  std::int64_t begin_ps = 0, end_ps = 0;  // The first begin and the last end.
  std::vector<StepPart> parts{};          // One or more.
};

struct ComparedSteps {
  std::vector<ComparedStep> all{};  // Ordered by name and number.
  std::string main_loop{};          // The name of the steps that take most of the workers' time.
};

// The steps of a run, which are read when they are first asked for.
struct LazySteps {
  Mutex mutex{};
  std::optional<ComparedSteps> steps ABSL_GUARDED_BY(mutex){};
};

// A run whose workers are moved against one another, as it was asked for.
struct LoadedRun;

struct KeptAlignments {
  // With more, all are made anew. They share the traces of the run, and are small beside them.
  static constexpr std::size_t kMaxKept = 8;

  Mutex mutex{};
  std::map<std::string, std::shared_ptr<const LoadedRun>> runs ABSL_GUARDED_BY(mutex){};
};

// The tables of a run, which are made when they are first asked for.
struct KeptTables {
  // Answers that are kept; with more, all are made anew. One takes a megabyte at most.
  static constexpr std::size_t kMaxKept = 32;

  Mutex mutex{};
  // Answers as JSON, by table and worker.
  std::map<std::string, std::string> answers ABSL_GUARDED_BY(mutex){};
};

// What the names of a pool's threads have in common: "tf_XLAEigen" for "tf_XLAEigen/123" and
// "tf_XLAEigen/-7", "worker" for "worker-3" and "worker_4", "Thread (serve)" for "Thread-2
// (serve)". A name without a number is its own pool.
std::string PoolOf(std::string_view thread);

// Groups the threads of a host, of which those of one pool become a section of the page. By thread:
// its pool, if at least two of the threads are of that pool; else empty.
std::vector<std::string> FindPools(const std::vector<std::string_view>& threads);

// Larger times are refused in queries and clamped in traces, so that two can be added without
// overflow.
inline constexpr std::int64_t kMaxTimePs = std::int64_t{1} << 61;

// What a worker's trace holds. Runs that are aligned otherwise share it.
struct WorkerFiles {
  convert::OpenTrace trace{};
  xplane::Space space{};  // The planes without their lines.
  index::StoredIndex stored{};
  xplane::Space derived{};  // Lines that the index has derived, such as steps.
};

struct Worker {
  std::string name{};
  std::string role{};  // See WorkerTrace.
  std::shared_ptr<WorkerFiles> files{};
  std::int64_t shift_ps = 0;  // Added to a time of the trace gives the time on the run's clock.
  // The worker's clock minus the operator's, and the half-width of its error interval; no error:
  // not measured.
  std::int64_t clock_offset_ns = 0;
  std::optional<std::int64_t> clock_error_ns{};
  // Why its times cannot be compared with those of other workers, in human-readable clauses.
  std::vector<std::string> clock_problems{};

  const index::Index& index() const { return files->stored.index(); }
  // A time of the trace, on the run's clock.
  std::int64_t OnClock(std::int64_t ps) const {
    return std::clamp(ps, -kMaxTimePs, kMaxTimePs) + shift_ps;
  }
  // When its first event begins and its last one ends, on the run's clock.
  std::int64_t begin_ps() const { return OnClock(index().header().begin_ps); }
  std::int64_t end_ps() const { return OnClock(index().header().end_ps); }
  // DataLoss when the trace's or the index's file was changed since it was opened.
  absl::Status Check() const {
    const absl::Status status = files->trace.Check();
    return status.ok() ? files->stored.Check() : status;
  }
};

// One line of one worker. The page knows rows by their place in LoadedRun::rows.
struct RowRef {
  std::uint32_t worker = 0;
  std::uint32_t row = 0;  // Its number in the worker's index.
  std::string pool{};     // The thread pool that it belongs to; empty if it is none.
};

// The name that a TensorCore's line has if it shows what a SparseCore's line of this name shows,
// such as "XLA Ops" for "Sparse Core Ops"; any other line's own name.
std::string_view TensorCoreLine(std::string_view line);

struct LoadedRun {
  std::string name{};
  // Another text if rows and events may have other numbers, because the run has other traces.
  std::string version{};
  std::vector<Worker> workers{};
  std::vector<convert::LeftOut> left_out{};  // Told in `warnings` too.
  // Devices before hosts, derived lines before the others, threads of pools behind other threads.
  std::vector<RowRef> rows{};
  std::uint64_t events = 0;
  // The earliest begin and the latest end of its events, on the run's clock.
  std::int64_t begin_ps = 0, end_ps = 0;
  std::int64_t zero_ns = 0;  // Unix time at which the run's clock is 0; 0 = unknown.
  // The time that the capture asked for, on the run's clock; both 0 when no trace tells.
  std::int64_t window_begin_ps = 0, window_end_ps = 0;
  std::vector<std::string> warnings{};
  // What the workers are aligned by if not by their clocks, such as "step 5". See aligned_run.h.
  std::string aligned_by{};

  const Worker& WorkerOf(const RowRef& row) const { return workers[row.worker]; }
  const index::Row& RowOf(const RowRef& row) const {
    return workers[row.worker].index().rows()[row.row];
  }
  // The name of a row.
  std::string_view LineOf(std::uint32_t row) const {
    return WorkerOf(rows[row]).index().Text(RowOf(rows[row]).name);
  }
  // Checks all workers. To be called after an answer was made and before it is sent: pages of a
  // truncated file read as zeros.
  absl::Status Check() const;
  // The place in `rows` of a worker's row.
  std::uint32_t NumberOf(std::uint32_t worker, std::uint32_t row) const;

  std::vector<std::vector<std::uint32_t>> numbers{};                 // NumberOf, by worker and row.
  std::unique_ptr<LazySteps> steps = std::make_unique<LazySteps>();  // See comparison.h.
  std::unique_ptr<KeptTables> tables = std::make_unique<KeptTables>();  // See tables.h.
  std::unique_ptr<KeptAlignments> alignments = std::make_unique<KeptAlignments>();
};

// Shared by the thread that loads a run and those that watch or stop it.
struct Progress {
  std::atomic<std::uint64_t> done{0}, total{0};  // Events of the traces that were opened so far.
  std::atomic<bool> stop{false};                 // Set to give up.
};

// Aligns the traces and opens their indexes; traces without one are indexed with `threads` threads.
// Damaged traces are left out with a warning. DataLoss if all are damaged, and if a file changed.
absl::StatusOr<LoadedRun> LoadRun(std::string name, std::vector<convert::OpenTrace> traces,
                                  const index::Cache& cache, std::size_t threads,
                                  Progress& progress);

// JSON for the page: the run's times, workers, rows and warnings.
std::string DescribeRun(const LoadedRun& run);

}  // namespace strobe::viewer
