#include "collector/storage/timed_file_store.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "collector/base/guard.h"
#include "collector/base/log.h"
#include "collector/base/mutex.h"
#include "collector/base/strings.h"
#include "collector/storage/file_store.h"

namespace strobe {
namespace {

constexpr Nanos kSlice = std::chrono::milliseconds(20);  // Between two looks at the cancellation.

std::atomic<int> g_left_behind{0};

// What the thread of an operation and whoever waits for it share. Only while it is awaited may the
// thread touch what belongs to the waiter, and it does so with the mutex held.
class Operation {
 public:
  // False when nobody waits any more; `touch` was not called then.
  template <typename Touch>
  bool WithWaiter(const Touch& touch) {
    MutexLock lock(&mutex_);
    if (left_) return false;
    touch();
    return true;
  }
  void Done() {
    MutexLock lock(&mutex_);
    done_ = true;
    if (left_) --g_left_behind;
  }
  bool WaitFor(Nanos duration) {
    MutexLock lock(&mutex_);
    return mutex_.AwaitFor(duration,
                           [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return done_; });
  }
  // False when it is done after all.
  bool Leave() {
    MutexLock lock(&mutex_);
    if (done_) return false;
    left_ = true;
    ++g_left_behind;
    cancel_.Cancel();
    return true;
  }
  // For the FileStore of the thread.
  const Cancellation& cancel() const { return cancel_; }

 private:
  Cancellation cancel_;
  Mutex mutex_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  bool left_ ABSL_GUARDED_BY(mutex_) = false;
};

// Runs `work(FileStore&, Operation&)` on a thread; what it returns lies in `result` afterwards.
template <typename Result, typename Work>
Result Run(const std::string& root, const StoreLimits& limits, std::string what, Work work) {
  const SystemClock clock;
  if (g_left_behind >= TimedFileStore::kMostLeftBehind)
    return absl::UnavailableError(
        StrCat(root, ": ", TimedFileStore::kMostLeftBehind, " operations on files hang already"));
  struct Shared {
    Operation operation;
    Result result{absl::UnknownError("not done")};
  };
  const auto shared = std::make_shared<Shared>();
  try {
    std::thread([shared, root, work = std::move(work)] {
      shared->result = RunGuarded("files", [&]() -> Result {
        FileStore store(root, &shared->operation.cancel());
        return work(store, shared->operation);
      });
      shared->operation.Done();
    }).detach();
  } catch (const std::system_error& error) {
    return absl::UnavailableError(StrCat("cannot start a thread: ", error.what()));
  }
  while (true) {
    const Nanos left = limits.deadline - clock.MonoNow();
    if (shared->operation.WaitFor(std::clamp(left, Nanos{0}, kSlice)))
      return std::move(shared->result);
    const bool cancelled = limits.cancellation != nullptr && limits.cancellation->cancelled();
    if (left > Nanos{0} && !cancelled) continue;
    if (!shared->operation.Leave()) return std::move(shared->result);
    if (cancelled) return absl::CancelledError("cancelled");
    const std::string words = StrCat(what, " did not end in time; does its file system hang?");
    LogWarning("an operation on files is left behind", {{"doing", what}, {"below", root}});
    return absl::DeadlineExceededError(StrCat(root, ": ", words));
  }
}

// Bytes that are there only while somebody waits for the operation.
class WaitersBytes final : public ByteSource {
 public:
  WaitersBytes(Operation& operation, const ByteSource& bytes, std::uint64_t size)
      : operation_(operation), bytes_(bytes), size_(size) {}
  std::uint64_t size() const override { return size_; }
  absl::Status Read(std::uint64_t offset, std::span<char> into) const override {
    absl::Status status = absl::CancelledError("nobody waits any more");
    operation_.WithWaiter([&] { status = bytes_.Read(offset, into); });
    return status;
  }

 private:
  Operation& operation_;
  const ByteSource& bytes_;
  const std::uint64_t size_;
};

}  // namespace

int TimedFileStore::LeftBehind() { return g_left_behind; }

absl::Status TimedFileStore::Put(std::string_view key, const ByteSource& bytes,
                                 const PutOptions& options) {
  const std::uint64_t size = bytes.size();
  return Run<absl::Status>(
      root_, limits_, StrCat("writing ", key),
      [key = std::string(key), &bytes, options, size](FileStore& store, Operation& operation) {
        return store.Put(key, WaitersBytes(operation, bytes, size), options);
      });
}

absl::StatusOr<ObjectInfo> TimedFileStore::Stat(std::string_view key) {
  return Run<absl::StatusOr<ObjectInfo>>(
      root_, limits_, StrCat("looking up ", key),
      [key = std::string(key)](FileStore& store, Operation&) { return store.Stat(key); });
}

absl::StatusOr<std::size_t> TimedFileStore::Read(std::string_view key, std::uint64_t offset,
                                                 std::span<char> into) {
  return Run<absl::StatusOr<std::size_t>>(
      root_, limits_, StrCat("reading ", key),
      [key = std::string(key), offset, into](FileStore& store,
                                             Operation& operation) -> absl::StatusOr<std::size_t> {
        std::vector<char> own(into.size());
        absl::StatusOr<std::size_t> got = store.Read(key, offset, own);
        if (got.ok()) operation.WithWaiter([&] { std::memcpy(into.data(), own.data(), *got); });
        return got;
      });
}

absl::Status TimedFileStore::List(std::string_view prefix, const Visitor& visit) {
  return Run<absl::Status>(
      root_, limits_, StrCat("listing ", prefix),
      [prefix = std::string(prefix), &visit](FileStore& store, Operation& operation) {
        return store.List(prefix, [&](StoredObject object) {
          bool more = false;
          operation.WithWaiter([&] { more = visit(std::move(object)); });
          return more;
        });
      });
}

absl::StatusOr<std::vector<std::string>> TimedFileStore::ListDirectories(std::string_view prefix) {
  return Run<absl::StatusOr<std::vector<std::string>>>(
      root_, limits_, StrCat("listing ", prefix),
      [prefix = std::string(prefix)](FileStore& store, Operation&) {
        return store.ListDirectories(prefix);
      });
}

absl::Status TimedFileStore::Delete(std::span<const std::string> keys) {
  return Run<absl::Status>(root_, limits_, StrCat("deleting ", keys.size(), " files"),
                           [keys = std::vector<std::string>(keys.begin(), keys.end())](
                               FileStore& store, Operation&) { return store.Delete(keys); });
}

std::unique_ptr<ObjectStore> OpenFileStore(std::string root, const StoreLimits& limits) {
  if (limits.deadline == MonoTime::max() && limits.cancellation == nullptr)
    return std::make_unique<FileStore>(std::move(root));
  return std::make_unique<TimedFileStore>(std::move(root), limits);
}

}  // namespace strobe
