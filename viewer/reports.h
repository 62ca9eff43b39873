// The answers to "/api/report": the report of a run as its capture stored it or, without one,
// computed from the traces that are open.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "common/http/http_server.h"
#include "viewer/loaded_run.h"
#include "viewer/report_maker.h"

namespace strobe::viewer {

struct StoredReport;

// Runs of at most this many events, in files of this machine, are cheap to report on: a few tens of
// milliseconds.
inline constexpr std::uint64_t kCheapEvents = 200'000;
bool IsCheap(const LoadedRun& run);

// Whether a report is computed for a run that has none stored.
enum class Making : std::uint8_t { kNever, kIfCheap, kAlways };
absl::StatusOr<Making> MakingOf(const std::string& text);  // "", "cheap" or "always".

// "state" is "stored", "computed", "computing", "loading" (the traces are being read) or "none".
Page StoredReportPage(const std::string& run, const StoredReport& stored);
Page LoadingReportPage(const std::string& run, const StoredReport& stored);

// Safe for concurrent use.
class Reports {
 public:
  // At most `most` computed reports are kept.
  explicit Reports(std::size_t most) : most_(most) {}

  // Whether the run's report is computed, or being computed.
  bool Knows(const std::string& run);
  // Waits a moment for the report of a run. A failure is forgotten, so that the next request tries
  // again.
  Page Answer(const std::string& name, const std::shared_ptr<const LoadedRun>& run, Making making,
              const StoredReport& stored);

 private:
  struct Entry {
    std::string run{};
    std::string
        problem{};  // Why the stored report cannot be shown; empty if it can, or is missing.
    std::shared_ptr<ReportMaker> maker{};
  };

  Entry EntryOf(const std::string& name, const std::shared_ptr<const LoadedRun>& run,
                const std::string& problem);

  const std::size_t most_;
  Mutex mutex_;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);  // The one that was made last at the end.
};

}  // namespace strobe::viewer
