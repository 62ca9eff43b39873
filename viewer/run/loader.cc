#include "viewer/run/loader.h"

#include <sys/resource.h>

#include "common/base/guard.h"

namespace strobe::viewer {
namespace {

// The nice value of the threads that load a run.
constexpr int kLoaderPoliteness = 5;

}  // namespace

Loader::Loader(Library& library, const index::Cache& cache, std::string run)
    : thread_([this, &library, cache, run = std::move(run)] {
        // The kernel changes this thread and those that it starts. Answers about other runs do not
        // wait while all processors make the index of a large one.
        (void)setpriority(PRIO_PROCESS, 0, kLoaderPoliteness);
        const absl::Status ran = RunGuarded("load", [&] { Run(library, cache, run); });
        if (ran.ok()) return;
        MutexLock lock(&mutex_);
        loaded_ = ran;
        done_ = true;
      }) {}

Loader::~Loader() {
  Stop();
  thread_.join();
}

bool Loader::has_ended() {
  MutexLock lock(&mutex_);
  return done_;
}

std::optional<std::string> Loader::stamp() {
  MutexLock lock(&mutex_);
  return stamp_;
}

void Loader::Run(Library& library, const index::Cache& cache, const std::string& run) {
  const absl::Status unwanted = absl::CancelledError("the run is not needed any more");
  absl::StatusOr<std::shared_ptr<const LoadedRun>> loaded = unwanted;
  std::optional<std::string> stamp;
  if (absl::StatusOr<std::string> now = library.StampOf(run); now.ok()) stamp = *std::move(now);
  absl::StatusOr<std::vector<convert::OpenTrace>> traces = library.Open(run);
  if (!traces.ok()) {
    loaded = traces.status();
  } else if (!progress_.stop) {
    const std::size_t threads = std::max(1u, std::thread::hardware_concurrency());
    absl::StatusOr<LoadedRun> made = LoadRun(run, *std::move(traces), cache, threads, progress_);
    if (made.ok())
      loaded = std::make_shared<const LoadedRun>(*std::move(made));
    else
      loaded = made.status();
  }
  if (progress_.stop) loaded = unwanted;
  MutexLock lock(&mutex_);
  loaded_ = std::move(loaded);
  stamp_ = std::move(stamp);
  done_ = true;
}

absl::StatusOr<std::shared_ptr<const LoadedRun>> Loader::Get(Nanos wait) {
  MutexLock lock(&mutex_);
  mutex_.AwaitFor(wait, [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return done_; });
  return loaded_;
}

}  // namespace strobe::viewer
