// Loads a run while the page already asks for it.
#pragma once
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "viewer/library.h"
#include "viewer/loaded_run.h"

namespace strobe::viewer {

class Loader {
 public:
  Loader(Library& library, const index::Cache& cache, std::string run);
  ~Loader();  // Gives up what is not done yet.
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Null while it loads; an error when it cannot be loaded. Waits for at most so long.
  absl::StatusOr<std::shared_ptr<const LoadedRun>> Get(Nanos wait);
  const Progress& progress() const { return progress_; }

 private:
  void Run(Library& library, const index::Cache& cache, const std::string& run);

  Progress progress_;
  Mutex mutex_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  absl::StatusOr<std::shared_ptr<const LoadedRun>> loaded_ ABSL_GUARDED_BY(mutex_){nullptr};
  std::thread thread_;  // Last: it starts when the rest is there.
};

}  // namespace strobe::viewer
