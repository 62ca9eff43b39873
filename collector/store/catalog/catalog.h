// The runs of several logdirs, kept up to date by listing the logdirs again and again.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "collector/store/catalog/logdir_scan.h"
#include "collector/store/catalog/run_search.h"
#include "common/base/cancellation.h"
#include "common/base/mutex.h"

namespace strobe::catalog {

struct CatalogedLogdir {
  std::string url{};  // Logdir::url; differs for each logdir of a catalog.
  // Opens the logdir's store. Called for each scan.
  std::function<absl::StatusOr<std::unique_ptr<storage::ObjectStore>>(const storage::StoreLimits&)>
      open{};
};

struct Options {
  // The folder that keeps the entries of each logdir; empty = they stay in memory.
  std::string directory{};
  ScanLimits limits{};
  // The pause after a scan is ten times as long as the listing took, within these limits, so that
  // listing takes about a tenth of the time. During a long pause, new runs are looked for every
  // min_pause.
  Nanos min_pause = std::chrono::seconds(10);
  Nanos max_pause = std::chrono::minutes(10);
};

// Safe for concurrent use. Has a thread for each logdir, so that one that does not answer delays no
// other.
class Catalog {
 public:
  // Starts to list. All logdirs together keep the options' limits.
  Catalog(std::vector<CatalogedLogdir> logdirs, const Options& options);
  ~Catalog();  // Ends the scans that are under way.
  Catalog(const Catalog&) = delete;
  Catalog& operator=(const Catalog&) = delete;

  // Never waits for a store.
  absl::StatusOr<RunAnswer> Search(const RunQuery& query, const Visible& visible) const;
  // Waits until each logdir was listed once, or its listing has failed. False after `timeout`.
  bool AwaitListed(Nanos timeout) const;

 private:
  struct Kept {
    CatalogedLogdir logdir;
    std::string path{};  // The file of its entries; empty = none.
    LogdirRunsRef runs{};
    bool scanned = false;  // At least one scan has ended.
  };

  void Follow(std::size_t place);
  Nanos Scan(std::size_t place);
  // True if the catalog has ended.
  bool Pause(std::size_t place, Nanos pause);
  void LookForNew(std::size_t place);
  LogdirRunsRef RunsOf(std::size_t place) const;
  void Keep(std::size_t place, LogdirRuns runs, bool scanned);

  const Options options_;
  Cancellation stopped_;
  mutable Mutex mutex_;
  std::vector<Kept> kept_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;  // Last, because they use the other members.
};

}  // namespace strobe::catalog
