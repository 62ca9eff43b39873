// ObjectStore in a directory. No symbolic link below it is followed: trainers may write there too.
#pragma once
#include <string>

#include "collector/logdir/object_store.h"

namespace strobe {

// Has no deadline: a file system that hangs holds whoever asks. TimedFileStore bounds that.
class FileStore final : public ObjectStore {
 public:
  // The cancellation, when given, outlives the store.
  explicit FileStore(std::string root, const Cancellation* cancellation = nullptr)
      : root_(std::move(root)), cancellation_(cancellation) {}

  // A hidden file beside the target is written and then takes its name. A writer that was killed
  // leaves that file; the next one of the same key begins it anew.
  absl::Status Put(std::string_view key, const ByteSource& bytes,
                   const PutOptions& options) override;
  absl::StatusOr<ObjectInfo> Stat(std::string_view key) override;
  absl::StatusOr<std::size_t> Read(std::string_view key, std::uint64_t offset,
                                   std::span<char> into) override;
  absl::Status List(std::string_view prefix, const Visitor& visit) override;
  absl::StatusOr<std::vector<std::string>> ListDirectories(std::string_view prefix) override;
  absl::Status Delete(std::span<const std::string> keys) override;  // And directories left empty.

 private:
  bool cancelled() const { return cancellation_ != nullptr && cancellation_->cancelled(); }

  const std::string root_;
  const Cancellation* const cancellation_;
};

}  // namespace strobe
