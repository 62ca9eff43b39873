// Finds the runs of a logdir: lists its objects, and reads only manifests that are new or changed.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "collector/store/catalog/run_search.h"
#include "collector/store/object_store.h"
#include "common/base/cancellation.h"
#include "common/base/clock.h"

namespace strobe::catalog {

struct ScanLimits {
  std::size_t max_runs = 150'000;      // The newest ones, by name.
  std::size_t max_bytes = 128u << 20;  // All entries in memory.
  std::size_t readers = 16;            // Manifests read at the same time.
  std::uint64_t max_manifest_bytes = 16u << 20;
  std::uint64_t max_bytes_at_once = 48u << 20;  // Manifests that are being read.
  Nanos publish_every = std::chrono::seconds(2);
};

// The logdir's runs now; `former` are those that the scan before found. `publish` is called with
// what is known so far while manifests are read. After an error, the runs that could not be looked
// at stay as they were, and LogdirRuns::problem tells the error. Never removes a run unless the
// whole listing says that it is gone.
LogdirRuns ScanLogdir(storage::ObjectStore& store, const LogdirRuns& former,
                      const ScanLimits& limits, const Cancellation* cancellation,
                      const std::function<void(LogdirRuns)>& publish);

// Adds runs that are new since `former`, at most a few hundred, and reads again the newest ones
// that had no manifest yet. Lists the names of the runs and not their objects, so that it takes a
// part of ScanLogdir's time. After an error it returns `former`; the next whole scan tells the
// error.
LogdirRuns ScanNewRuns(storage::ObjectStore& store, const LogdirRuns& former,
                       const ScanLimits& limits, const Cancellation* cancellation);

}  // namespace strobe::catalog
