#include "collector/store/catalog/catalog.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "collector/store/catalog/entries_file.h"
#include "common/base/guard.h"
#include "common/base/log.h"
#include "common/base/new_file.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/memory/mapped_file.h"

namespace strobe::catalog {
namespace {

constexpr Nanos kSaveEvery = std::chrono::minutes(1);

// The entries that an earlier process has left in the file; an error if there are none.
absl::StatusOr<LogdirRuns> Load(const std::string& path, const std::string& url) {
  if (path.empty()) return absl::NotFoundError("no entries are kept");
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  RETURN_IF_ERROR(file.status());
  if (file->bytes().size() > kMaxEntriesFileBytes) return absl::DataLossError("the file is large");
  absl::StatusOr<LogdirRuns> runs = ReadEntries(file->bytes(), url);
  RETURN_IF_ERROR(file->Check());
  return runs;
}

absl::Status Save(const std::string& path, const LogdirRuns& runs) {
  if (path.empty()) return absl::OkStatus();
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  NewFile file(path);
  RETURN_IF_ERROR(
      WriteEntries(runs, [&file](std::string_view piece) { return file.Write(piece); }));
  return file.Finish();
}

bool SameEntries(const LogdirRuns& a, const LogdirRuns& b) { return a.entries == b.entries; }

}  // namespace

Catalog::Catalog(std::vector<CatalogedLogdir> logdirs, const Options& options)
    : options_([&] {
        Options shared = options;  // The limits are those of all logdirs together.
        const std::size_t count = std::max<std::size_t>(1, logdirs.size());
        shared.limits.max_bytes /= count;
        shared.limits.max_bytes_at_once /= count;
        shared.limits.readers = std::max<std::size_t>(2, shared.limits.readers / count);
        return shared;
      }()) {
  for (CatalogedLogdir& logdir : logdirs) {
    Kept kept{.logdir = std::move(logdir)};
    if (!options_.directory.empty())
      kept.path = StrCat(options_.directory, "/", EntriesFileName(kept.logdir.url));
    kept.runs = std::make_shared<LogdirRuns>(LogdirRuns{.logdir = kept.logdir.url, .busy = true});
    MutexLock lock(&mutex_);
    kept_.push_back(std::move(kept));
  }
  for (std::size_t place = 0; place < logdirs.size(); ++place)
    threads_.emplace_back([this, place] { RunThread("catalog", [&] { Follow(place); }); });
}

Catalog::~Catalog() {
  stopped_.Cancel();
  for (std::thread& thread : threads_) thread.join();
}

absl::StatusOr<RunAnswer> Catalog::Search(const RunQuery& query, const Visible& visible) const {
  std::vector<LogdirRunsRef> all;
  {
    MutexLock lock(&mutex_);
    for (const Kept& kept : kept_) all.push_back(kept.runs);
  }
  return SearchRuns(all, query, visible);
}

bool Catalog::AwaitListed(Nanos timeout) const {
  MutexLock lock(&mutex_);
  return mutex_.AwaitFor(timeout, [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return std::all_of(kept_.begin(), kept_.end(), [](const Kept& kept) { return kept.scanned; });
  });
}

LogdirRunsRef Catalog::RunsOf(std::size_t place) const {
  MutexLock lock(&mutex_);
  return kept_[place].runs;
}

void Catalog::Keep(std::size_t place, LogdirRuns runs, bool scanned) {
  LogdirRunsRef former = std::make_shared<LogdirRuns>(std::move(runs));
  // What it replaces is destroyed after the lock is released: that takes long for many runs.
  MutexLock lock(&mutex_);
  kept_[place].runs.swap(former);
  kept_[place].scanned = kept_[place].scanned || scanned;
}

void Catalog::Follow(std::size_t place) {
  std::string path, url;
  {
    MutexLock lock(&mutex_);
    path = kept_[place].path;
    url = kept_[place].logdir.url;
  }
  if (!RunsOf(place)->listed) {
    if (absl::StatusOr<LogdirRuns> runs = Load(path, url); runs.ok()) {
      runs->busy = true;
      Keep(place, *std::move(runs), /*scanned=*/false);
    }
  }
  while (!Pause(place, Scan(place))) continue;
}

bool Catalog::Pause(std::size_t place, Nanos pause) {
  const SystemClock clock;
  const MonoTime until = clock.MonoNow() + pause;
  Nanos step = options_.min_pause;
  while (clock.MonoNow() + step < until) {
    if (stopped_.WaitFor(step)) return true;
    const MonoTime began = clock.MonoNow();
    LookForNew(place);
    // A store is asked for a tenth of the time at most, however large the logdir is.
    step = std::max(options_.min_pause, (clock.MonoNow() - began) * 10);
  }
  return stopped_.WaitFor(std::max(Nanos{0}, until - clock.MonoNow()));
}

void Catalog::LookForNew(std::size_t place) {
  CatalogedLogdir logdir;
  {
    MutexLock lock(&mutex_);
    logdir = kept_[place].logdir;
  }
  const absl::StatusOr<std::unique_ptr<storage::ObjectStore>> store =
      logdir.open(storage::StoreLimits{.cancellation = &stopped_});
  const LogdirRunsRef former = RunsOf(place);
  // Without a first listing there are no runs to compare with.
  if (!store.ok() || !former->listed) return;
  LogdirRuns runs = ScanNewRuns(**store, *former, options_.limits, &stopped_);
  if (!stopped_.cancelled() && !SameEntries(runs, *former))
    Keep(place, std::move(runs), /*scanned=*/true);
}

// Returns how long to pause.
Nanos Catalog::Scan(std::size_t place) {
  const SystemClock clock;
  const MonoTime began = clock.MonoNow();
  CatalogedLogdir logdir;
  std::string path;
  {
    MutexLock lock(&mutex_);
    logdir = kept_[place].logdir;
    path = kept_[place].path;
  }
  const LogdirRunsRef former = RunsOf(place);
  const absl::StatusOr<std::unique_ptr<storage::ObjectStore>> store =
      logdir.open(storage::StoreLimits{.cancellation = &stopped_});
  if (!store.ok()) {
    LogdirRuns runs = *former;
    runs.problem = MessageOf(store.status());
    runs.busy = false;
    Keep(place, std::move(runs), /*scanned=*/true);
    return options_.max_pause;
  }
  MonoTime saved = began;
  const auto save = [&](const LogdirRuns& runs) {
    saved = clock.MonoNow();
    const absl::Status status = Save(path, runs);
    if (!status.ok())
      LogWarning("the list of runs is kept in memory only", {{"reason", MessageOf(status)}});
  };
  LogdirRuns runs =
      ScanLogdir(**store, *former, options_.limits, &stopped_, [&](LogdirRuns so_far) {
        if (clock.MonoNow() - saved > kSaveEvery) save(so_far);
        Keep(place, std::move(so_far), /*scanned=*/false);
      });
  if (stopped_.cancelled()) return Nanos{0};
  runs.busy = false;
  const Nanos took = runs.listing;
  if (!SameEntries(runs, *former)) save(runs);
  Keep(place, std::move(runs), /*scanned=*/true);
  return std::clamp<Nanos>(took * 10, options_.min_pause, options_.max_pause);
}

}  // namespace strobe::catalog
