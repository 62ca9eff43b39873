#include "collector/store/retrying_store.h"

#include <algorithm>
#include <random>
#include <thread>
#include <type_traits>
#include <unordered_set>

#include "common/base/duration.h"
#include "common/base/strings.h"

namespace strobe::storage {
namespace {

const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

class Retrier {
 public:
  Retrier(const StoreLimits& limits, OnRetry on_retry)
      : limits_(limits), on_retry_(std::move(on_retry)) {}

  template <typename Operation>
  std::invoke_result_t<Operation> operator()(const Operation& operation) const {
    const MonoTime began = clock_.MonoNow();
    const MonoTime until =
        limits_.deadline - began < limits_.patience ? limits_.deadline : began + limits_.patience;
    for (int tries = 1;; ++tries) {
      auto result = operation();
      const absl::Status& status = StatusOf(result);
      if (status.ok()) return result;
      const MonoTime now = clock_.MonoNow();
      const std::optional<Nanos> delay = RetryDelay(status, tries, until - now, Dice());
      if (!delay) {
        // The first failure, or a final one, is reported as it is.
        if (tries == 1 || !WorthRetrying(status)) return result;
        return absl::Status(
            status.code(), ToAbsl(StrCat(MessageOf(status), "; gave up after ", tries, " tries in ",
                                         FormatDuration(Round(now - began)))));
      }
      if (on_retry_) on_retry_(status, *delay);
      if (limits_.cancellation == nullptr) {
        std::this_thread::sleep_for(*delay);
      } else if (limits_.cancellation->WaitFor(*delay)) {
        return absl::CancelledError("cancelled");
      }
    }
  }

 private:
  static double Dice() {
    thread_local std::minstd_rand random{std::random_device{}()};
    return std::uniform_real_distribution<double>(0, 1)(random);
  }
  static Nanos Round(Nanos duration) {
    return std::chrono::floor<std::chrono::milliseconds>(duration);
  }

  const SystemClock clock_;
  const StoreLimits limits_;
  const OnRetry on_retry_;
};

class RetryingStore final : public ObjectStore, public PartUploads {
 public:
  RetryingStore(std::unique_ptr<ObjectStore> inner, const StoreLimits& limits, OnRetry on_retry)
      : inner_(std::move(inner)), retry_(limits, std::move(on_retry)) {}

  absl::Status Put(std::string_view key, const ByteSource& bytes,
                   const PutOptions& options) override {
    return retry_([&] { return inner_->Put(key, bytes, options); });
  }
  absl::StatusOr<ObjectInfo> Stat(std::string_view key) override {
    return retry_([&] { return inner_->Stat(key); });
  }
  absl::StatusOr<std::size_t> Read(std::string_view key, std::uint64_t offset,
                                   std::span<char> into) override {
    return retry_([&] { return inner_->Read(key, offset, into); });
  }
  absl::StatusOr<std::size_t> ReadVersion(std::string_view key, const std::string& version,
                                          std::uint64_t offset, std::span<char> into) override {
    return retry_([&] { return inner_->ReadVersion(key, version, offset, into); });
  }
  absl::Status ListUnchecked(std::string_view prefix, const Visitor& visit) override {
    // A listing that fails is started again. Objects that the visitor has seen are skipped by their
    // keys, because others may have been deleted meanwhile and not every store sorts its listing.
    std::unordered_set<std::string> told;
    return retry_([&] {
      return inner_->ListUnchecked(prefix, [&](StoredObject object) {
        return !told.insert(object.key).second || visit(std::move(object));
      });
    });
  }
  absl::StatusOr<std::vector<std::string>> ListDirectoriesUnchecked(
      std::string_view prefix) override {
    return retry_([&] { return inner_->ListDirectoriesUnchecked(prefix); });
  }
  absl::Status Delete(std::span<const std::string> keys) override {
    return retry_([&] { return inner_->Delete(keys); });
  }
  // A failure here costs nothing: writing will tell.
  absl::Status CheckWritable(std::string_view prefix) override {
    return inner_->CheckWritable(prefix);
  }
  bool CanRead(std::string_view key) const override { return inner_->CanRead(key); }
  PartUploads* uploads() override { return inner_->uploads() == nullptr ? nullptr : this; }

  absl::StatusOr<std::string> Begin(std::string_view key, std::string_view sha256) override {
    return retry_([&] { return inner_->uploads()->Begin(key, sha256); });
  }
  absl::StatusOr<std::string> Part(std::string_view key, const std::string& upload,
                                   std::size_t index, const ByteSource& bytes, std::uint64_t offset,
                                   std::size_t size) override {
    return retry_([&] { return inner_->uploads()->Part(key, upload, index, bytes, offset, size); });
  }
  absl::Status Commit(std::string_view key, const std::string& upload,
                      std::span<const std::string> parts) override {
    return retry_([&] { return inner_->uploads()->Commit(key, upload, parts); });
  }
  absl::Status Abort(std::string_view key, const std::string& upload) override {
    return retry_([&] { return inner_->uploads()->Abort(key, upload); });
  }

 private:
  const std::unique_ptr<ObjectStore> inner_;
  const Retrier retry_;
};

}  // namespace

using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {
constexpr Nanos kMinWait = milliseconds(200);
}  // namespace

bool WorthRetrying(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsUnauthenticated(status);
}

std::optional<Nanos> RetryDelay(const absl::Status& status, int tries, Nanos left, double dice) {
  if (!WorthRetrying(status)) return std::nullopt;
  const Nanos full =
      std::min<Nanos>(seconds(5), milliseconds(100) * (1LL << std::min(tries - 1, 10)));
  const Nanos delay{static_cast<Nanos::rep>(static_cast<double>(full.count()) * (1 - dice / 2))};
  if (delay < left) return delay;
  // Uses half of the remaining time for the wait, unless it is too short for another attempt.
  return left > kMinWait ? std::optional(left / 2) : std::nullopt;
}

std::unique_ptr<ObjectStore> WithRetries(std::unique_ptr<ObjectStore> inner,
                                         const StoreLimits& limits, OnRetry on_retry) {
  return std::make_unique<RetryingStore>(std::move(inner), limits, std::move(on_retry));
}

}  // namespace strobe::storage
