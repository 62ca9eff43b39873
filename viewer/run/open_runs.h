// The runs that are open, or being read: a bounded number, of which the one that was asked for
// longest ago gives way to another one.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "viewer/run/eviction.h"
#include "viewer/run/library.h"
#include "viewer/run/loader.h"

namespace strobe::viewer {

struct OpenRunsOptions {
  index::Cache cache{};
  // How many runs stay open, each with its traces mapped. Two are enough for one person to go back
  // and forth between them.
  std::size_t max_open = 2;
  std::shared_ptr<const Clock> clock = std::make_shared<SystemClock>();
};

// A run that was asked for.
struct OpenRun {
  std::shared_ptr<Loader> loader{};        // Null if the run has to wait for other ones.
  std::shared_ptr<const LoadedRun> run{};  // Null if it is still being read.
};

// Safe for concurrent use.
class OpenRuns {
 public:
  // The library must outlive the runs.
  OpenRuns(Library& library, OpenRunsOptions options);

  // The run as far as it was read after `wait`; reads it if nobody has asked for it yet. Other runs
  // are evicted if the process has no room for it.
  absl::StatusOr<OpenRun> Open(const std::string& run, Nanos wait, const std::string& asker);
  // Like Open, but reads a run anew if traces of it were added, replaced or removed.
  absl::StatusOr<OpenRun> OpenFresh(const std::string& run, Nanos wait, const std::string& asker);
  // DataLoss if the run's files were changed since they were opened: what was answered from them
  // may be wrong, and the next request reads the run anew.
  absl::Status Check(const OpenRun& open);

  // Notes that somebody asks for the run, so that it is evicted last. False if it is neither open
  // nor being read.
  bool Touch(const std::string& run, const std::string& asker);
  // The run if it is open, else null. Does not count as a request.
  std::shared_ptr<const LoadedRun> Find(const std::string& run) const;
  // Whether somebody has got the run already, so that others need not wait for its store.
  bool IsServed(const std::string& run) const;
  // Frees the evicted runs that the last request was waiting for.
  void FreeEvicted();

 private:
  struct Entry {
    std::string run{};
    Askers askers{};
    std::shared_ptr<Loader> loader{};
    MonoTime requested{};  // When it was asked for last.
    MonoTime checked{};    // When it was read, or found to have the same traces as before.
    bool served = false;   // Somebody has got it.
  };

  // The run's loader if there is one, else null. Makes it the one that is evicted last.
  std::shared_ptr<Loader> TouchLoader(const std::string& run, const std::string& asker)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The run's loader; starts to read the run if nobody has. Null if the run has to wait: because
  // `max_open` others are being read for somebody, which would evict one another for ever, or
  // because more than `max_open` evicted ones have not ended yet.
  std::shared_ptr<Loader> TryLoaderOf(const std::string& run, const std::string& asker);
  // Like TryLoaderOf, but waits up to `wait` for a free slot. Null on timeout.
  std::shared_ptr<Loader> LoaderOf(const std::string& run, Nanos wait, const std::string& asker);
  // Null if the run is still being read after `wait`, or without a loader. After an error the
  // loader is forgotten.
  absl::StatusOr<std::shared_ptr<const LoadedRun>> Loaded(const std::shared_ptr<Loader>& loader,
                                                          Nanos wait);
  void NoteServed(const std::shared_ptr<Loader>& loader);
  // Whether traces of an open run were added, replaced or removed since it was read. Asks the
  // library at most every few seconds.
  bool IsStale(const std::string& run, const std::shared_ptr<Loader>& loader);
  void Forget(const std::shared_ptr<Loader>& loader);

  // Stops the evicted loaders for which nobody waits, and returns those that have ended.
  std::vector<std::shared_ptr<Loader>> TakeFinished() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Evict(std::vector<Entry>::iterator entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Evicts a run that somebody has got, to make room for this asker. False if there is none.
  bool EvictOne(const std::string& asker);

  Library& library_;
  const OpenRunsOptions options_;
  mutable Mutex mutex_;
  // The one that was asked for last at the end.
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);
  // Loaders that were evicted, until they have ended: the store that they ask may answer late.
  std::vector<std::shared_ptr<Loader>> evicted_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe::viewer
