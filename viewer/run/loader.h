// Loads a run on a thread of its own, so that the page can show progress.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "viewer/run/library.h"
#include "viewer/run/loaded_run.h"

namespace strobe::viewer {

class Loader {
 public:
  // Begins to load at once. The library must outlive the loader.
  Loader(Library& library, const index::Cache& cache, std::string run);
  ~Loader();  // Stops loading and waits for the thread.
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Tells the thread to end early, which it cannot while the store is asked for the traces. A run
  // that it reads all the same is not kept.
  void Stop() { progress_.stop = true; }
  // Whether the destructor returns at once.
  bool has_ended();
  // The run; null if it is still loading after `wait`; an error when it cannot be loaded.
  absl::StatusOr<std::shared_ptr<const LoadedRun>> Get(Nanos wait);
  const Progress& progress() const { return progress_; }
  // The library's stamp of the run from before it was read; none while it is still loading, and if
  // the library could not be asked for it.
  std::optional<std::string> stamp();

 private:
  void Run(Library& library, const index::Cache& cache, const std::string& run);

  Progress progress_;
  Mutex mutex_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<std::string> stamp_ ABSL_GUARDED_BY(mutex_){};
  absl::StatusOr<std::shared_ptr<const LoadedRun>> loaded_ ABSL_GUARDED_BY(mutex_){nullptr};
  std::thread thread_;  // Last, because it uses the other members.
};

}  // namespace strobe::viewer
