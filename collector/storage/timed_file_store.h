// A FileStore whose operations end when their time is up.
#pragma once
#include <cstddef>
#include <memory>
#include <string>

#include "collector/logdir/object_store.h"

namespace strobe {

// A file system that hangs (NFS whose server is away) keeps a thread in the kernel for as long as
// it likes. Each operation runs on a thread of its own, and whoever asked waits for it until the
// limits' deadline (DeadlineExceeded) or until it is cancelled (Cancelled). A thread that does not
// come back is left behind; it touches nothing of ours any more. When the file system wakes up, a
// call that hangs within the kernel still takes effect: a name that is linked, a file that is
// deleted. No further one is begun. While kMaxLeftBehind of a process hang, new operations
// are refused (Unavailable).
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
  absl::Status List(std::string_view prefix, const Visitor& visit) override;
  absl::StatusOr<std::vector<std::string>> ListDirectories(std::string_view prefix) override;
  absl::Status Delete(std::span<const std::string> keys) override;

  // Of this process, at present.
  static int LeftBehind();

 private:
  const std::string root_;
  const StoreLimits limits_;
};

// A directory as a store. Whoever sets no limit may wait for as long as it takes, and pays for no
// thread.
std::unique_ptr<ObjectStore> OpenFileStore(std::string root, const StoreLimits& limits);

}  // namespace strobe
