// Computes the report of a run that is open, while the page shows its timeline.
#pragma once
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "common/base/cancellation.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "viewer/run/loaded_run.h"

namespace strobe::viewer {

// The viewer computes no report of more events: one thread reads these in a few seconds. `strobe
// report` has no limit.
inline constexpr std::uint64_t kMaxReportEvents = 20'000'000;
// Workers whose traces were not read by then are missing from the report.
inline constexpr Nanos kReportDeadline = std::chrono::seconds(60);

// The text of report.json, made of the traces of all workers one after another. Cancelled once
// `stop` is set. An error if a trace was changed meanwhile, or could not be fetched: the run is to
// be read anew. `done` counts workers.
absl::StatusOr<std::string> MakeReport(const LoadedRun& run, Nanos patience,
                                       const Cancellation& stop, std::atomic<std::size_t>& done);

// Makes the text of a run's report, as MakeReport does; tests pass one that waits.
using MakeFunction = std::function<absl::StatusOr<std::string>(
    const LoadedRun& run, const Cancellation& stop, std::atomic<std::size_t>& done)>;
// MakeReport with kReportDeadline.
absl::StatusOr<std::string> MakeReportInTime(const LoadedRun& run, const Cancellation& stop,
                                             std::atomic<std::size_t>& done);

// Makes the report on a thread of its own, which gives way to the threads that answer the page.
class ReportMaker {
 public:
  explicit ReportMaker(std::shared_ptr<const LoadedRun> run, MakeFunction make = &MakeReportInTime);
  ~ReportMaker();  // Stops early.
  ReportMaker(const ReportMaker&) = delete;
  ReportMaker& operator=(const ReportMaker&) = delete;

  // Empty if the report is not made after `wait`.
  absl::StatusOr<std::string> Get(Nanos wait);
  std::size_t done() const { return done_; }
  std::size_t total() const { return total_; }

 private:
  Cancellation stop_;
  std::atomic<std::size_t> done_{0};
  const std::size_t total_;
  Mutex mutex_;
  bool made_ ABSL_GUARDED_BY(mutex_) = false;
  absl::StatusOr<std::string> report_ ABSL_GUARDED_BY(mutex_){""};
  std::thread thread_;  // Last, because it uses the other members.
};

}  // namespace strobe::viewer
