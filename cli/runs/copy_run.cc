#include "cli/runs/copy_run.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/base/thread_annotations.h"
#include "cli/base/runs.h"
#include "collector/store/prefetch.h"
#include "collector/store/upload.h"
#include "common/base/mutex.h"
#include "common/base/parallel.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::cli {
namespace {

// Objects up to this size are copied several at a time. Larger ones are copied one by one, because
// each of them is read and written in parallel.
constexpr std::uint64_t kMaxSmallBytes = 8 << 20;
constexpr std::size_t kSmallAtOnce = 8;

// The copy of one run.
class Copy {
 public:
  Copy(storage::ObjectStore& from, storage::ObjectStore& to,
       const std::function<void(CopyProgress)>& progress)
      : from_(from), to_(to), progress_(progress) {}

  // Takes the total size, and the checksums that the manifest promises. Called before the first
  // One.
  void Expect(const RunSummary& run, std::uint64_t bytes) {
    MutexLock lock(&mutex_);
    all_ = bytes;
    if (!run.manifest) return;
    for (const auto& worker : run.manifest->workers()) {
      if (!worker.sha256().empty())
        sha256_[storage::TraceKey(run.run, worker.name())] = worker.sha256();
    }
  }

  // Copies one object.
  absl::Status One(const storage::StoredObject& object) {
    const storage::PrefetchedBytes bytes(from_, object.key, object.bytes);
    ASSIGN_OR_RETURN(const std::string actual, storage::HashBytes(bytes));
    const auto promised = sha256_.find(object.key);
    if (promised != sha256_.end() && promised->second != actual) {
      return absl::DataLossError(StrCat(object.key, " does not have the checksum in its manifest; ",
                                        "it was damaged or replaced after the capture"));
    }
    std::uint64_t told = 0;
    RETURN_IF_ERROR(
        storage::Upload(to_, object.key, bytes,
                        {.sha256 = actual, .progress = [&](std::uint64_t done, std::uint64_t) {
                           Add(done - told);
                           told = done;
                         }}));
    Add(object.bytes - told);
    return absl::OkStatus();
  }

 private:
  void Add(std::uint64_t bytes) {
    MutexLock lock(&mutex_);
    done_ += bytes;
    if (progress_) progress_({.done = done_, .all = all_});
  }

  storage::ObjectStore& from_;
  storage::ObjectStore& to_;
  const std::function<void(CopyProgress)>& progress_;
  std::map<std::string, std::string> sha256_;  // By key. Constant once the first object is copied.
  Mutex mutex_;
  std::uint64_t done_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t all_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The folder above the key that is one of these keys too; empty if there is none.
std::string FileAbove(std::string key, const std::set<std::string>& keys) {
  for (std::size_t slash = key.rfind('/'); slash != std::string::npos; slash = key.rfind('/')) {
    key.resize(slash);
    if (keys.contains(key)) return key;
  }
  return "";
}

// Takes out empty objects "a" beside "a/b", which some tools write for a folder. Returns the keys
// of the others.
std::set<std::string> TakeOutFolders(std::vector<storage::StoredObject>& objects) {
  std::set<std::string> keys, folders;
  for (const storage::StoredObject& object : objects) keys.insert(object.key);
  for (const std::string& key : keys) folders.insert(FileAbove(key, keys));
  std::erase_if(objects, [&](const storage::StoredObject& object) {
    return object.bytes == 0 && folders.contains(object.key) && keys.erase(object.key) > 0;
  });
  return keys;
}

}  // namespace

absl::StatusOr<CopyTotals> CopyRun(storage::ObjectStore& from, storage::ObjectStore& to,
                                   const std::string& run,
                                   const std::function<void(CopyProgress)>& progress) {
  ASSIGN_OR_RETURN(std::vector<storage::StoredObject> objects,
                   storage::ListAll(from, storage::RunPrefix(run)));
  if (objects.empty()) return absl::NotFoundError(StrCat("there is no run ", run));
  const std::set<std::string> keys = TakeOutFolders(objects);
  CopyTotals totals{.objects = objects.size()};
  for (const storage::StoredObject& object : objects) totals.bytes += object.bytes;
  Copy copy(from, to, progress);
  copy.Expect(ReadRun(from, run), totals.bytes);

  std::vector<storage::StoredObject> small, large, last, below;
  for (storage::StoredObject& object : objects) {
    auto& group = !FileAbove(object.key, keys).empty()      ? below
                  : object.key == storage::ManifestKey(run) ? last
                  : object.bytes <= kMaxSmallBytes          ? small
                                                            : large;
    group.push_back(std::move(object));
  }
  absl::Status left_out;
  // An object that the target cannot have, because of its name, does not keep the others.
  const auto check = [&](const storage::StoredObject& object, const absl::Status& copied) {
    const std::string file = FileAbove(object.key, keys);
    if (copied.ok() || (file.empty() && !absl::IsInvalidArgument(copied))) return copied;
    left_out.Update(absl::DataLossError(ToAbsl(
        StrCat(object.key, " is not copied", file.empty() ? "" : StrCat(": ", file, " is a file"),
               ": ", MessageOf(copied), "; all others are copied"))));
    return absl::OkStatus();
  };
  std::vector<absl::Status> statuses(small.size());
  ParallelFor(small.size(), kSmallAtOnce, [&](std::size_t i) { statuses[i] = copy.One(small[i]); });
  for (std::size_t i = 0; i < small.size(); ++i) RETURN_IF_ERROR(check(small[i], statuses[i]));
  for (const auto* group : {&large, &last, &below}) {
    for (const storage::StoredObject& object : *group)
      RETURN_IF_ERROR(check(object, copy.One(object)));
  }
  RETURN_IF_ERROR(left_out);
  return totals;
}

}  // namespace strobe::cli
