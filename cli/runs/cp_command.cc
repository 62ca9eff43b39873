#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>
#include <map>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_format.h"
#include "cli/base/common_flags.h"
#include "cli/base/interrupts.h"
#include "cli/base/open_location.h"
#include "cli/base/progress.h"
#include "cli/base/report_table.h"
#include "cli/base/runs.h"
#include "cli/runs/logdir_commands.h"
#include "collector/store/object_store.h"
#include "collector/store/prefetch.h"
#include "collector/store/upload.h"
#include "common/base/mutex.h"
#include "common/base/parallel.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::cli {
namespace {

// Copies a run from one logdir to another and verifies the copy.
struct CopyProgress {
  std::uint64_t done = 0, all = 0;  // Bytes of the run.
};

struct CopyTotals {
  std::size_t objects = 0;
  std::uint64_t bytes = 0;
};

// Whether CopyRun failed because of the run, so that other runs may still be copied, and not
// because of a logdir.
inline bool IsFaultOfRun(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsAlreadyExists(status);
}

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

// Copies all objects of the run. An object that the target already has with the same bytes is left
// alone, so that a copy that was interrupted can be repeated. The manifest is copied last: where
// there is a manifest, the run is complete. `progress` is called from several threads, one at a
// time. Errors:
//   NotFound       there is no such run
//   DataLoss       a trace does not have the checksum that the manifest gives it; or the target
//                  cannot have an object because of its name, such as "a/b" beside "a" in a folder,
//                  and all others are copied
//   AlreadyExists  the target has an object of that name with other bytes
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

// Shows "[=======>      ]  48%  1.02 GB of 2.15 GB  310 MB/s  <run>" if stderr is a terminal.
class ProgressBar {
 public:
  ProgressBar(std::string label, bool quiet)
      : label_(std::move(label)), show_(!quiet && isatty(STDERR_FILENO) == 1), line_(!show_) {}
  ~ProgressBar() { line_.Clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void Show(const CopyProgress& progress) {
    const MonoTime now = clock_.MonoNow();
    if (!show_ || now - shown_ < std::chrono::milliseconds(100)) return;
    shown_ = now;
    constexpr std::size_t kWidth = 24;
    const double part =
        progress.all == 0 ? 1
                          : static_cast<double>(progress.done) / static_cast<double>(progress.all);
    const auto filled = static_cast<std::size_t>(part * kWidth);
    const std::chrono::duration<double> took = now - began_;
    const auto rate = static_cast<std::uint64_t>(static_cast<double>(progress.done) /
                                                 std::max(took.count(), 0.1));
    const std::string empty(kWidth - filled - (filled < kWidth ? 1 : 0), ' ');
    line_.Show(StrCat("[", std::string(filled, '='), filled < kWidth ? ">" : "", empty, "] ",
                      absl::StrFormat("%3.0f%%", 100 * part), "  ", FormatBytes(progress.done),
                      " of ", FormatBytes(progress.all), "  ", FormatBytes(rate), "/s  ", label_));
  }

 private:
  const SystemClock clock_;
  const std::string label_;
  const bool show_;
  ProgressText line_;
  const MonoTime began_ = clock_.MonoNow();
  MonoTime shown_{};
};

}  // namespace

void AddCpFlags(CLI::App& command, CpFlags& flags) {
  command.add_option("from", flags.from, "URL of a run, or a logdir with --run or --all")
      ->required();
  command.add_option("to", flags.to, "the logdir to copy to; runs keep their names")->required();
  AddRunChoiceFlags(command, flags.choice);
  command.add_flag("--quiet", flags.quiet, "show no progress");
  AddStorageConfigFlag(command, flags.storage_config);
  command.footer(
      "An interrupted copy can be repeated: objects that the target already has are skipped, and "
      "never overwritten with other bytes.\n"
      "Examples:\n"
      "  strobe cp s3://bucket/logs/plugins/profile/2026_11_21_08_30_00_bench /tmp/logs\n"
      "  strobe cp gs://bucket/logs az://archive/logs --run 2026_11_21_08_30_00_bench\n"
      "Exit code: 0 copied, 1 not or not all of it copied, 2 a flag is wrong.");
}

int RunCp(const CpFlags& flags) {
  // A signal ends the reading. The target still works then, to remove what is not complete.
  const StopAtSignal signals;
  const absl::StatusOr<OpenLocation> from =
      OpenExistingLocation(flags.from, flags.storage_config, {.cancellation = &signals.stop()});
  if (!from.ok()) return Complain(from.status());
  const absl::StatusOr<OpenLocation> to = OpenRunLocation(flags.to, flags.storage_config);
  if (!to.ok()) return Complain(to.status());
  if (!to->location.run.empty()) {
    return Complain(
        absl::InvalidArgumentError("the target must be a logdir, not a run: a run keeps its name"));
  }
  const absl::StatusOr<std::vector<std::string>> runs =
      ChooseRuns(*from->store, from->location.run, flags.choice, SystemClock().WallNow());
  if (!runs.ok()) return Complain(runs.status());
  if (runs->empty()) std::cerr << "nothing to copy\n";
  int code = kExitOk;
  for (const std::string& run : *runs) {
    const bool named = run == from->location.run ||
                       std::ranges::find(flags.choice.runs, run) != flags.choice.runs.end();
    // A folder without files is no run.
    if (!named && !storage::HasFiles(*from->store, storage::RunPrefix(run)).value_or(true))
      continue;
    absl::StatusOr<CopyTotals> totals;
    {
      ProgressBar bar(run, flags.quiet);
      totals = CopyRun(*from->store, *to->store, run,
                       [&](const CopyProgress& progress) { bar.Show(progress); });
    }
    if (!totals.ok()) {
      // The other runs may be better.
      code = Complain(totals.status());
      if (IsFaultOfRun(totals.status())) continue;
      return code;
    }
    if (!flags.quiet) {
      std::cout << to->location.logdir.RunUrl(run) << ": " << totals->objects << " objects, "
                << FormatBytes(totals->bytes) << "\n";
    }
  }
  return code;
}

}  // namespace strobe::cli
