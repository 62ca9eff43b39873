// A FileStore with deadlines.
#pragma once
#include <cstddef>
#include <memory>
#include <string>

#include "collector/store/object_store.h"

namespace strobe::storage {

// A file system that hangs, such as NFS without its server, blocks a thread in the kernel for an
// unlimited time. Each operation therefore runs on a thread of its own, and the caller waits for it
// until the limits' deadline (DeadlineExceeded) or cancellation (Cancelled). A thread that does not
// return is abandoned; it no longer uses objects of the caller. When the file system recovers, the
// system call that hung still takes effect, for example a link or a deletion, but no further one is
// made. While kMaxLeftBehind threads of the process hang, new operations fail with Unavailable.
class TimedFileStore final : public ObjectStore {
 public:
  static constexpr int kMaxLeftBehind = 16;

  TimedFileStore(std::string root, const StoreLimits& limits)
      : root_(std::move(root)), limits_(limits) {}

  absl::Status Put(std::string_view key, const ByteSource& bytes,
                   const PutOptions& options) override;
  absl::StatusOr<ObjectInfo> Stat(std::string_view key) override;
  absl::StatusOr<std::size_t> Read(std::string_view key, std::uint64_t offset,
                                   std::span<char> into) override;
  absl::StatusOr<std::size_t> ReadVersion(std::string_view key, const std::string&,
                                          std::uint64_t offset, std::span<char> into) override {
    return Read(key, offset, into);
  }
  absl::Status ListUnchecked(std::string_view prefix, const Visitor& visit) override;
  absl::StatusOr<std::vector<std::string>> ListDirectoriesUnchecked(
      std::string_view prefix) override;
  absl::Status CheckWritable(std::string_view prefix) override;
  absl::Status Delete(std::span<const std::string> keys) override;

 private:
  const std::string root_;
  const StoreLimits limits_;
};

// Opens a directory as a store. Without limits it uses no threads, and operations may block for an
// unlimited time.
std::unique_ptr<ObjectStore> OpenFileStore(std::string root, const StoreLimits& limits);

}  // namespace strobe::storage
