#include "viewer/run/open_runs.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <thread>
#include <utility>

#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::viewer {
namespace {

// How often it is looked whether a slot has become free.
constexpr Nanos kSlotPoll = std::chrono::milliseconds(100);
// A run that is being read is given up for another one if nobody has asked for it for this long.
constexpr Nanos kPatience = std::chrono::seconds(5);
// A run that is open is not compared with its files more often, however many pages open it.
constexpr Nanos kFresh = std::chrono::seconds(2);

}  // namespace

OpenRuns::OpenRuns(Library& library, OpenRunsOptions options)
    : library_(library), options_(std::move(options)) {}

std::shared_ptr<Loader> OpenRuns::TouchLoader(const std::string& run, const std::string& asker) {
  const auto entry = std::ranges::find(entries_, run, &Entry::run);
  if (entry == entries_.end()) return nullptr;
  entry->requested = options_.clock->MonoNow();
  entry->askers.Note(asker);
  std::rotate(entry, entry + 1, entries_.end());
  return entries_.back().loader;
}

bool OpenRuns::Touch(const std::string& run, const std::string& asker) {
  MutexLock lock(&mutex_);
  return TouchLoader(run, asker) != nullptr;
}

std::shared_ptr<const LoadedRun> OpenRuns::Find(const std::string& run) const {
  std::shared_ptr<Loader> loader;
  {
    MutexLock lock(&mutex_);
    const auto entry = std::ranges::find(entries_, run, &Entry::run);
    if (entry == entries_.end()) return nullptr;
    loader = entry->loader;
  }
  return loader->Get(Nanos{0}).value_or(nullptr);
}

bool OpenRuns::IsServed(const std::string& run) const {
  MutexLock lock(&mutex_);
  const auto entry = std::ranges::find(entries_, run, &Entry::run);
  return entry != entries_.end() && entry->served;
}

std::vector<std::shared_ptr<Loader>> OpenRuns::TakeFinished() {
  for (const std::shared_ptr<Loader>& loader : evicted_)
    if (loader.use_count() == 1) loader->Stop();
  const auto finished =
      std::partition(evicted_.begin(), evicted_.end(),
                     [](const std::shared_ptr<Loader>& loader) { return !loader->has_ended(); });
  std::vector<std::shared_ptr<Loader>> taken(std::make_move_iterator(finished),
                                             std::make_move_iterator(evicted_.end()));
  evicted_.erase(finished, evicted_.end());
  return taken;
}

void OpenRuns::Evict(std::vector<Entry>::iterator entry) {
  evicted_.push_back(std::move(entry->loader));
  entries_.erase(entry);
}

void OpenRuns::FreeEvicted() {
  std::vector<std::shared_ptr<Loader>> finished;  // Destroyed after the lock, as in TryLoaderOf.
  MutexLock lock(&mutex_);
  finished = TakeFinished();
}

std::shared_ptr<Loader> OpenRuns::TryLoaderOf(const std::string& run, const std::string& asker) {
  // Declared before the lock, so that they are destroyed after it: that may unmap large files.
  std::vector<std::shared_ptr<Loader>> finished;
  MutexLock lock(&mutex_);
  if (std::shared_ptr<Loader> loader = TouchLoader(run, asker)) return loader;
  const MonoTime now = options_.clock->MonoNow();
  if (entries_.size() >= options_.max_open) {
    const auto entry = ChooseEvicted(entries_, asker, [&](const Entry& one) {
      return one.served || now - one.requested > kPatience;
    });
    if (entry == entries_.end()) return nullptr;
    Evict(entry);
  }
  finished = TakeFinished();
  if (evicted_.size() > options_.max_open) return nullptr;
  entries_.push_back({.run = run,
                      .loader = std::make_shared<Loader>(library_, options_.cache, run),
                      .requested = now,
                      .checked = now});
  entries_.back().askers.Note(asker);
  return entries_.back().loader;
}

std::shared_ptr<Loader> OpenRuns::LoaderOf(const std::string& run, Nanos wait,
                                           const std::string& asker) {
  std::shared_ptr<Loader> loader = TryLoaderOf(run, asker);
  for (; loader == nullptr && wait > Nanos{0}; wait -= kSlotPoll) {
    std::this_thread::sleep_for(std::min(wait, kSlotPoll));
    loader = TryLoaderOf(run, asker);
  }
  return loader;
}

void OpenRuns::NoteServed(const std::shared_ptr<Loader>& loader) {
  MutexLock lock(&mutex_);
  for (Entry& entry : entries_)
    if (entry.loader == loader) entry.served = true;
}

bool OpenRuns::IsStale(const std::string& run, const std::shared_ptr<Loader>& loader) {
  {
    MutexLock lock(&mutex_);
    const auto entry = std::ranges::find(entries_, loader, &Entry::loader);
    const MonoTime now = options_.clock->MonoNow();
    if (entry == entries_.end() || now - entry->checked < kFresh) return false;
    entry->checked = now;
  }
  // Without a stamp from before it was read, nobody knows, so that it is read again.
  const std::optional<std::string> before = loader->stamp();
  if (before == "") return false;
  // A store that does not answer keeps nobody from what is open.
  const absl::StatusOr<std::string> now = library_.StampOf(run);
  return now.ok() && *now != before;
}

void OpenRuns::Forget(const std::shared_ptr<Loader>& loader) {
  MutexLock lock(&mutex_);
  std::erase_if(entries_, [&](const Entry& entry) { return entry.loader == loader; });
}

absl::StatusOr<std::shared_ptr<const LoadedRun>> OpenRuns::Loaded(
    const std::shared_ptr<Loader>& loader, Nanos wait) {
  if (loader == nullptr) return std::shared_ptr<const LoadedRun>();
  absl::StatusOr<std::shared_ptr<const LoadedRun>> run = loader->Get(wait);
  if (!run.ok())
    Forget(loader);  // The next request tries again: the cause may have been removed by then.
  else if (*run != nullptr)
    NoteServed(loader);
  return run;
}

bool OpenRuns::EvictOne(const std::string& asker) {
  std::vector<std::shared_ptr<Loader>> finished;  // Destroyed after the lock, as in TryLoaderOf.
  MutexLock lock(&mutex_);
  const auto entry = ChooseEvicted(entries_, asker, [](const Entry& one) { return one.served; });
  if (entry == entries_.end()) return false;
  Evict(entry);
  finished = TakeFinished();
  return true;
}

absl::StatusOr<OpenRun> OpenRuns::Open(const std::string& name, Nanos wait,
                                       const std::string& asker) {
  OpenRun open{.loader = LoaderOf(name, wait, asker)};
  absl::StatusOr<std::shared_ptr<const LoadedRun>> run = Loaded(open.loader, wait);
  // Mappings and open files are bounded for the whole process, and other runs may have them.
  while (absl::IsResourceExhausted(run.status()) && EvictOne(asker)) {
    open.loader = LoaderOf(name, wait, asker);
    run = Loaded(open.loader, wait);
  }
  if (absl::IsResourceExhausted(run.status()))
    return absl::ResourceExhaustedError(ToAbsl(
        StrCat(MessageOf(run.status()),
               "; try again when fewer runs are being read, or copy the run with strobe cp and "
               "open the copy with strobe view")));
  ASSIGN_OR_RETURN(open.run, std::move(run));
  return open;
}

absl::StatusOr<OpenRun> OpenRuns::OpenFresh(const std::string& name, Nanos wait,
                                            const std::string& asker) {
  ASSIGN_OR_RETURN(OpenRun open, Open(name, wait, asker));
  if (open.run == nullptr || !IsStale(name, open.loader)) return open;
  Forget(open.loader);
  open = {};  // Freed before the run is read again.
  return Open(name, wait, asker);
}

absl::Status OpenRuns::Check(const OpenRun& open) {
  absl::Status status = open.run->Check();
  if (!status.ok()) Forget(open.loader);
  return status;
}

}  // namespace strobe::viewer
