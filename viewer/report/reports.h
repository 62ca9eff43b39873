// The answers to "/api/report": the report of a run as its capture stored it or, without one,
// computed from the traces that are open.
#pragma once
#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/http/server.h"
#include "viewer/report/report_maker.h"
#include "viewer/run/eviction.h"
#include "viewer/run/library.h"
#include "viewer/run/loaded_run.h"

namespace strobe::viewer {

// The report that a capture has stored with its run, or the verdict on a job that stood still.
struct StoredReport {
  nlohmann::ordered_json report{};  // As ReadReport gives it. Null: there is none to be shown.
  // As ReadVerdict gives it. Null: the run has no evidence. One with evidence has no report.
  nlohmann::ordered_json evidence{};
  std::string problem{};  // Why what is stored cannot be shown; empty: nothing is stored.
};

StoredReport ReadStoredReport(Library& library, const std::string& run);

// Runs of at most this many events, in files of this machine, are reported on without being asked:
// for less than a second, and with some 60 MB of the traces in memory. How long the page waits for
// it before it begins with the timeline is the page's own matter (Landing in overview/report.js).
inline constexpr std::uint64_t kCheapEvents = 2'000'000;
bool IsCheap(const LoadedRun& run);

// Whether a report is computed for a run that has none stored.
enum class Making : std::uint8_t { kNever, kIfCheap, kAlways };
absl::StatusOr<Making> MakingOf(const std::string& text);  // "", "cheap" or "always".

// "state" is "stored", "computed", "computing", "loading" (the traces are being read) or "none". A
// run that has evidence in place of traces has no report and the member "evidence".
http::Page StoredReportPage(const std::string& run, const StoredReport& stored);
http::Page LoadingReportPage(const std::string& run, const StoredReport& stored);

// Safe for concurrent use.
class Reports {
 public:
  // At most `most` reports are kept, or being computed, at the same time.
  Reports(std::size_t most, std::shared_ptr<const Clock> clock,
          MakeFunction make = &MakeReportInTime)
      : most_(most), clock_(std::move(clock)), make_(std::move(make)) {}

  // Why the stored report of a run could not be shown when the store was asked for it; empty if
  // there is none. Nothing if the store is to be asked, because nobody waits for a report that is
  // computed.
  std::optional<std::string> ProblemOf(const std::string& run);
  // Remembers a problem while somebody waits until the run's report can be computed.
  void NoteProblem(const std::string& run, const std::string& problem);
  // Waits a moment for the report of a run. A failure is forgotten, so that the next request tries
  // again; so is the report of traces that were replaced since.
  http::Page Answer(const std::string& name, const std::shared_ptr<const LoadedRun>& run,
                    Making making, const StoredReport& stored, const std::string& asker);

 private:
  struct Entry {
    std::string run{};
    Askers askers{};
    // Why the stored report cannot be shown; empty if it can be, or if there is none.
    std::string problem{};
    std::shared_ptr<ReportMaker> maker{};
    std::vector<index::Source> sources{};  // The traces that it is made of.
    MonoTime asked_at{};                   // When it was asked for last.
    bool served = false;                   // Somebody has got it.
  };

  struct Waiting {
    std::string run{}, problem{};
    MonoTime asked_at{};
  };

  // Whether the report of these very traces is computed, or being computed.
  bool Has(const std::string& name, const LoadedRun& run);
  // The run's report; begins to compute it if nobody has. None if it has to wait, because `most`
  // others are being computed for somebody: they would evict one another for ever.
  std::optional<Entry> TryEntryOf(const std::string& name,
                                  const std::shared_ptr<const LoadedRun>& run,
                                  const std::string& problem, const std::string& asker);
  void NoteGiven(const std::shared_ptr<ReportMaker>& maker);

  const std::size_t most_;
  const std::shared_ptr<const Clock> clock_;
  const MakeFunction make_;
  Mutex mutex_;
  // The one that was asked for last at the end.
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);
  // Runs whose traces are being read, or whose report waits for others; the latest at the end.
  std::vector<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe::viewer
