#include "collector/store/catalog/logdir_scan.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "collector/store/catalog/run_facts.h"
#include "common/base/mutex.h"
#include "common/base/parallel.h"
#include "common/base/strings.h"

namespace strobe::catalog {
namespace {

// After this many manifests that cannot be read, a scan does not try the others.
constexpr std::size_t kMaxFailures = 50;
constexpr std::size_t kMaxRunName = 255;
// One ScanNewRuns takes at most this many; a whole scan finds the others.
constexpr std::size_t kMaxNewRuns = 200, kMaxUnfinished = 10;

using FoundRuns = std::map<std::string, RunObjects, std::less<>>;

void Count(const storage::StoredObject& object, FoundRuns& found, std::size_t max_runs,
           std::size_t& left_out) {
  std::string_view key = object.key;
  if (!key.starts_with(storage::kRunsPrefix)) return;
  key.remove_prefix(storage::kRunsPrefix.size());
  const std::size_t slash = key.find('/');
  if (slash == std::string_view::npos || slash == 0 || slash > kMaxRunName) return;
  const std::string_view run = key.substr(0, slash), file = key.substr(slash + 1);
  auto place = found.find(run);
  if (place == found.end()) {
    if (found.size() >= max_runs) {
      ++left_out;  // Counts objects; the caller only needs to know that there are some.
      // Names begin with the time, so that the first one is the oldest.
      if (run <= found.begin()->first) return;
      found.erase(found.begin());
    }
    place = found.emplace(run, RunObjects{}).first;
  }
  RunObjects& objects = place->second;
  objects.bytes +=
      std::min(object.bytes, std::numeric_limits<std::uint64_t>::max() - objects.bytes);
  if (file == "strobe.json") {
    objects.manifest_bytes = object.bytes;
    objects.manifest_mark = MarkOf(object.version);
  }
  if (file == "report.json" || file == "evidence.json") objects.report_bytes = object.bytes;
  if (storage::IsSpaceName(file)) ++objects.traces;
}

// Reads manifests on several threads, with a bound on their bytes together.
class ManifestReading {
 public:
  ManifestReading(storage::ObjectStore& store, const ScanLimits& limits,
                  const Cancellation* cancellation)
      : store_(store), limits_(limits), cancellation_(cancellation) {}

  // Null if the store did not give it; the run is then read by the next scan.
  EntryRef Read(const RunEntry& unread) {
    if (GaveUp()) return nullptr;
    const std::uint64_t bytes = unread.objects.manifest_bytes;
    if (bytes > limits_.max_manifest_bytes)
      return Unreadable(unread, absl::OutOfRangeError(StrCat("its strobe.json has ", bytes,
                                                             " bytes, which is too much")));
    {
      MutexLock lock(&mutex_);
      mutex_.Await([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return at_once_ == 0 || at_once_ + bytes <= limits_.max_bytes_at_once;
      });
      at_once_ += bytes;
    }
    EntryRef entry = ReadNow(unread);
    MutexLock lock(&mutex_);
    at_once_ -= bytes;
    return entry;
  }

  std::string problem() {
    MutexLock lock(&mutex_);
    return problem_;
  }

 private:
  static EntryRef Unreadable(const RunEntry& unread, const absl::Status& why) {
    return std::make_shared<RunEntry>(UnreadableEntry(unread.run, unread.objects, why));
  }

  EntryRef ReadNow(const RunEntry& unread) {
    // The manifest may have been replaced by a larger one after it was listed; the next scan reads
    // that one.
    const absl::StatusOr<std::string> text =
        storage::GetText(store_, storage::ManifestKey(unread.run), unread.objects.manifest_bytes);
    if (absl::IsOutOfRange(text.status()) || absl::IsNotFound(text.status())) return nullptr;
    if (!text.ok()) {
      Fail(unread.run, text.status());
      return nullptr;
    }
    const absl::StatusOr<ManifestFacts> facts = ReadManifestFacts(*text);
    if (!facts.ok()) return Unreadable(unread, facts.status());
    auto entry = std::make_shared<RunEntry>(EntryOf(unread.run, unread.objects, *facts));
    if (unread.objects.report_bytes > 0) entry->headline = ReadHeadline(store_, unread.run);
    return entry;
  }

  bool GaveUp() {
    if (cancellation_ != nullptr && cancellation_->cancelled()) return true;
    MutexLock lock(&mutex_);
    return failures_ >= kMaxFailures;
  }
  void Fail(const std::string& run, const absl::Status& why) {
    MutexLock lock(&mutex_);
    ++failures_;
    if (problem_.empty()) problem_ = StrCat(run, ": ", MessageOf(why));
  }

  storage::ObjectStore& store_;
  const ScanLimits& limits_;
  const Cancellation* const cancellation_;
  Mutex mutex_;
  std::uint64_t at_once_ ABSL_GUARDED_BY(mutex_) = 0;
  std::size_t failures_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string problem_ ABSL_GUARDED_BY(mutex_);
};

void Sort(LogdirRuns& runs) {
  std::sort(runs.entries.begin(), runs.entries.end(), [](const EntryRef& a, const EntryRef& b) {
    return ComesBefore({a->time_ns, a->run, {}}, {b->time_ns, b->run, {}});
  });
}

// Keeps the newest runs that fit.
void Bound(const ScanLimits& limits, LogdirRuns& runs) {
  std::size_t bytes = 0, kept = 0;
  while (kept < runs.entries.size() && kept < limits.max_runs &&
         (bytes += runs.entries[kept]->size()) <= limits.max_bytes)
    ++kept;
  runs.left_out += runs.entries.size() - kept;
  runs.entries.resize(kept);
}

// The entries of what was found: former entries that still fit, and others that have to be read.
LogdirRuns Join(const LogdirRuns& former, const FoundRuns& found, const absl::Status& listed) {
  std::map<std::string_view, const EntryRef*> known;
  for (const EntryRef& entry : former.entries) known.emplace(entry->run, &entry);
  LogdirRuns runs{.logdir = former.logdir};
  runs.listed = former.listed || listed.ok();
  if (!listed.ok()) runs.problem = MessageOf(listed);
  runs.entries.reserve(found.size());
  for (const auto& [run, objects] : found) {
    const auto before = known.find(run);
    const EntryRef* entry = before == known.end() ? nullptr : before->second;
    if (before != known.end()) known.erase(before);
    const bool cut_off = !listed.ok() && objects.manifest_bytes == 0;  // Perhaps not listed yet.
    if (entry != nullptr && ((*entry)->objects == objects || cut_off))
      runs.entries.push_back(*entry);
    else if (objects.manifest_bytes > 0)
      runs.entries.push_back(std::make_shared<RunEntry>(UnreadEntry(run, objects)));
    else
      runs.entries.push_back(std::make_shared<RunEntry>(EntryWithout(run, objects)));
  }
  if (!listed.ok()) {
    for (const auto& [run, entry] : known) runs.entries.push_back(*entry);
  }
  return runs;
}

}  // namespace

LogdirRuns ScanLogdir(storage::ObjectStore& store, const LogdirRuns& former,
                      const ScanLimits& limits, const Cancellation* cancellation,
                      const std::function<void(LogdirRuns)>& publish) {
  const SystemClock clock;
  const MonoTime began = clock.MonoNow();
  FoundRuns found;
  std::size_t left_out = 0;
  const absl::Status listed =
      store.List(storage::kRunsPrefix, [&](const storage::StoredObject& object) {
        Count(object, found, limits.max_runs, left_out);
        return cancellation == nullptr || !cancellation->cancelled();
      });
  if (cancellation != nullptr && cancellation->cancelled()) return former;
  LogdirRuns runs = Join(former, found, listed);
  found.clear();
  Sort(runs);
  Bound(limits, runs);
  runs.left_out += left_out > 0 ? 1 : 0;
  runs.listing = clock.MonoNow() - began;

  std::vector<std::size_t> unread;
  for (std::size_t i = 0; i < runs.entries.size(); ++i) {
    if (runs.entries[i]->unread) unread.push_back(i);
  }
  ManifestReading reading(store, limits, cancellation);
  Mutex mutex;
  MonoTime published{};
  ParallelFor(unread.size(), limits.readers, [&](std::size_t i) {
    EntryRef& place = runs.entries[unread[i]];
    EntryRef entry = reading.Read(*place);
    MutexLock lock(&mutex);
    if (entry != nullptr) place = std::move(entry);
    if (!publish || clock.MonoNow() - published < limits.publish_every) return;
    published = clock.MonoNow();
    LogdirRuns so_far = runs;
    so_far.busy = true;
    // A manifest that was read may have given its run a time that the name does not tell.
    Sort(so_far);
    publish(std::move(so_far));
  });
  if (runs.problem.empty()) runs.problem = reading.problem();
  if (!unread.empty()) {
    Sort(runs);
    Bound(limits, runs);
  }
  return runs;
}

LogdirRuns ScanNewRuns(storage::ObjectStore& store, const LogdirRuns& former,
                       const ScanLimits& limits, const Cancellation* cancellation) {
  const absl::StatusOr<std::vector<std::string>> names =
      store.ListDirectories(storage::kRunsPrefix);
  if (!names.ok()) return former;
  LogdirRuns runs = former;
  std::map<std::string_view, std::size_t> places;
  std::vector<std::string> wanted;
  for (std::size_t i = 0; i < former.entries.size(); ++i) {
    const RunEntry& entry = *former.entries[i];
    places.emplace(entry.run, i);
    // Entries are sorted newest first, so these are captures that are under way.
    if (!entry.has_manifest && wanted.size() < kMaxUnfinished) wanted.push_back(entry.run);
  }
  std::vector<std::string> fresh;
  for (const std::string& name : *names) {
    if (name.size() <= kMaxRunName && !places.contains(name)) fresh.push_back(name);
  }
  std::sort(fresh.rbegin(), fresh.rend());
  if (fresh.size() > kMaxNewRuns) fresh.resize(kMaxNewRuns);
  wanted.insert(wanted.end(), fresh.begin(), fresh.end());

  ManifestReading reading(store, limits, cancellation);
  std::vector<EntryRef> found(wanted.size());
  ParallelFor(wanted.size(), limits.readers, [&](std::size_t i) {
    FoundRuns one;
    std::size_t left_out = 0;
    const absl::Status listed =
        store.List(storage::RunPrefix(wanted[i]), [&](const storage::StoredObject& object) {
          Count(object, one, 1, left_out);
          return cancellation == nullptr || !cancellation->cancelled();
        });
    if (!listed.ok() || one.empty()) return;
    const RunObjects& objects = one.begin()->second;
    if (objects.manifest_bytes == 0)
      found[i] = std::make_shared<RunEntry>(EntryWithout(wanted[i], objects));
    else
      found[i] = reading.Read(UnreadEntry(wanted[i], objects));
  });
  for (EntryRef& entry : found) {
    if (entry == nullptr) continue;
    const auto place = places.find(entry->run);
    if (place == places.end())
      runs.entries.push_back(std::move(entry));
    else if (runs.entries[place->second]->objects != entry->objects)
      runs.entries[place->second] = std::move(entry);
  }
  Sort(runs);
  runs.left_out = 0;
  Bound(limits, runs);
  runs.left_out += former.left_out;
  return runs;
}

}  // namespace strobe::catalog
