#include "collector/store/timed_file_store.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "collector/store/file_store.h"
#include "common/base/guard.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::storage {
namespace {

// The longest single wait, because a condition variable cannot wait until MonoTime::max().
constexpr Nanos kMaxSingleWait = std::chrono::hours(1);

std::atomic<int> g_left_behind{0};

// The state that the thread of an operation shares with its waiter. The thread may use objects of
// the waiter only while the waiter waits, and with the mutex held.
class Operation {
 public:
  Operation(StoreLimits limits, std::string root, std::string what)
      : limits_(limits), root_(std::move(root)), what_(std::move(what)) {}

  // Calls `touch` if the waiter still waits; otherwise returns the reason. The limits are checked
  // here too, because on a busy machine the thread may run again before the waiter has noticed the
  // deadline.
  template <typename Touch>
  absl::Status WithWaiter(const Touch& touch) {
    MutexLock lock(&mutex_);
    if (left_) return absl::CancelledError("the caller does not wait any more");
    RETURN_IF_ERROR(WithinLimits());
    touch();
    return absl::OkStatus();
  }
  void Done() {
    {
      MutexLock lock(&mutex_);
      done_ = true;
      if (left_) --g_left_behind;
    }
    wake_.Cancel();
  }
  // Waits until the operation is done, which it returns, or wake() is cancelled.
  bool WaitFor(Nanos duration) {
    (void)wake_.WaitFor(duration);
    MutexLock lock(&mutex_);
    return done_;
  }
  // Stops waiting if a limit was reached and returns the reason. OK if there is time left or the
  // operation is done.
  absl::Status Leave() {
    MutexLock lock(&mutex_);
    if (done_) return absl::OkStatus();
    const absl::Status why = WithinLimits();
    if (why.ok()) return why;
    left_ = true;
    ++g_left_behind;
    cancel_.Cancel();
    return why;
  }
  // To be cancelled with the waiter.
  Cancellation& wake() { return wake_; }
  // The cancellation for the thread's FileStore.
  const Cancellation& cancel() const { return cancel_; }

 private:
  absl::Status WithinLimits() const {
    if (limits_.cancellation != nullptr && limits_.cancellation->cancelled())
      return absl::CancelledError("cancelled");
    if (SystemClock().MonoNow() < limits_.deadline) return absl::OkStatus();
    return absl::DeadlineExceededError(
        StrCat(root_, ": ", what_, " did not end in time; does its file system hang?"));
  }

  const StoreLimits limits_;  // The cancellation in it belongs to the waiter.
  const std::string root_, what_;
  Cancellation cancel_, wake_;
  Mutex mutex_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  bool left_ ABSL_GUARDED_BY(mutex_) = false;
};

// Runs `work(FileStore&, Operation&)` on a thread and returns its result, or the limit that was
// reached.
template <typename Result, typename Work>
Result Run(const std::string& root, const StoreLimits& limits, std::string what, Work work) {
  if (g_left_behind >= TimedFileStore::kMaxLeftBehind)
    return absl::UnavailableError(
        StrCat(root, ": ", TimedFileStore::kMaxLeftBehind, " file operations hang already"));
  struct Shared {
    Shared(const StoreLimits& limits, const std::string& root, const std::string& what)
        : operation(limits, root, what) {}
    Operation operation;
    Result result{absl::UnknownError("not done")};
  };
  const auto shared = std::make_shared<Shared>(limits, root, what);
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
  std::optional<CancellationLink> link;
  if (limits.cancellation != nullptr) link.emplace(*limits.cancellation, shared->operation.wake());
  while (!shared->operation.WaitFor(
      std::clamp(limits.deadline - SystemClock().MonoNow(), Nanos{0}, kMaxSingleWait))) {
    const absl::Status why = shared->operation.Leave();
    if (why.ok()) continue;
    if (absl::IsDeadlineExceeded(why))
      LogWarning("a file operation hangs; its thread is abandoned",
                 {{"doing", what}, {"below", root}});
    return why;
  }
  return std::move(shared->result);
}

// The waiter's bytes, which are accessible only while it waits.
class WaitersBytes final : public ByteSource {
 public:
  WaitersBytes(Operation& operation, const ByteSource& bytes, std::uint64_t size)
      : operation_(operation), bytes_(bytes), size_(size) {}
  std::uint64_t size() const override { return size_; }
  absl::Status Read(std::uint64_t offset, std::span<char> into) const override {
    absl::Status status;
    RETURN_IF_ERROR(operation_.WithWaiter([&] { status = bytes_.Read(offset, into); }));
    return status;
  }

 private:
  Operation& operation_;
  const ByteSource& bytes_;
  const std::uint64_t size_;
};

}  // namespace

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
        RETURN_IF_ERROR(got.status());
        RETURN_IF_ERROR(operation.WithWaiter([&] { std::memcpy(into.data(), own.data(), *got); }));
        return got;
      });
}

absl::Status TimedFileStore::ListUnchecked(std::string_view prefix, const Visitor& visit) {
  return Run<absl::Status>(
      root_, limits_, StrCat("listing ", prefix),
      [prefix = std::string(prefix), &visit](FileStore& store, Operation& operation) {
        absl::Status awaited;
        const absl::Status listed = store.ListUnchecked(prefix, [&](StoredObject object) {
          bool more = false;
          awaited = operation.WithWaiter([&] { more = visit(std::move(object)); });
          return more;
        });
        return awaited.ok() ? listed : awaited;
      });
}

absl::StatusOr<std::vector<std::string>> TimedFileStore::ListDirectoriesUnchecked(
    std::string_view prefix) {
  return Run<absl::StatusOr<std::vector<std::string>>>(
      root_, limits_, StrCat("listing ", prefix),
      [prefix = std::string(prefix)](FileStore& store, Operation&) {
        return store.ListDirectoriesUnchecked(prefix);
      });
}

absl::Status TimedFileStore::CheckWritable(std::string_view prefix) {
  return Run<absl::Status>(root_, limits_, StrCat("looking at ", prefix),
                           [prefix = std::string(prefix)](FileStore& store, Operation&) {
                             return store.CheckWritable(prefix);
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

}  // namespace strobe::storage
