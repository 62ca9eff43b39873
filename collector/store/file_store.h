// An ObjectStore in a directory. Symbolic links below it are not followed, because trainers may
// write there too.
#pragma once
#include <string>

#include "collector/store/object_store.h"

namespace strobe::storage {

// It has no deadline: if the file system hangs, the caller hangs. TimedFileStore adds a deadline.
class FileStore final : public ObjectStore {
 public:
  // `cancellation` may be null and must outlive the store.
  explicit FileStore(std::string root, const Cancellation* cancellation = nullptr)
      : root_(std::move(root)), cancellation_(cancellation) {}

  // Writes a hidden file beside the target and then renames it. A writer that was killed leaves the
  // hidden file, which the next writer of the same key overwrites. What has been put survives a
  // crash of the machine.
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
  // Also removes empty directories.
  absl::Status Delete(std::span<const std::string> keys) override;

 private:
  // Removes a folder that only has hidden files, if their writers were killed, with these.
  void RemoveAbandoned(const std::string& parent);
  bool cancelled() const { return cancellation_ != nullptr && cancellation_->cancelled(); }

  const std::string root_;
  const Cancellation* const cancellation_;
};

}  // namespace strobe::storage
