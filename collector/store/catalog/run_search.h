// Searches the runs of several logdirs. Pure.
#pragma once
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/store/catalog/run_entry.h"
#include "common/base/clock.h"

namespace strobe::catalog {

// The logdirs that the asker may see, by their URLs (Logdir::url). Runs of other logdirs have no
// effect on any answer.
struct Visible {
  bool all = false;
  std::set<std::string, std::less<>> logdirs{};

  bool Has(std::string_view logdir) const { return all || logdirs.contains(logdir); }
};
inline const Visible kAllVisible{.all = true};

// The runs of a logdir at some time, in the order of ComesBefore.
struct LogdirRuns {
  std::string logdir{};  // Its URL.
  std::vector<EntryRef> entries{};
  std::size_t left_out = 0;  // 0 unless ScanLimits left out older runs; not their exact number.
  std::string problem{};     // Why the runs could not be listed or read completely.
  bool listed = false;       // It has been listed at least once.
  bool busy = false;         // Manifests are still being read.
  Nanos listing{};           // How long listing took, without reading manifests.
};
using LogdirRunsRef = std::shared_ptr<const LogdirRuns>;

struct RunQuery {
  // Each word must be part of the run's name, namespace, request, job, requester, result or one of
  // its causes. Upper and lower case of ASCII letters are the same.
  std::string text{};
  std::size_t limit = 100;
  std::string after{};  // RunAnswer::next of the page before; empty = the first page.
};
inline constexpr std::size_t kMaxQueryBytes = 500;

struct FoundRun {
  std::string_view logdir{};
  EntryRef entry{};
};
struct RunAnswer {
  std::vector<FoundRun> runs{};
  std::string next{};                    // For the next page; empty = these were the last runs.
  std::vector<LogdirRunsRef> logdirs{};  // Only what the asker may see.
};

// InvalidArgument if `after` is not a RunAnswer::next or the text is too long.
absl::StatusOr<RunAnswer> SearchRuns(std::span<const LogdirRunsRef> logdirs, const RunQuery& query,
                                     const Visible& visible);

}  // namespace strobe::catalog
