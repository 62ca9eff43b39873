// ObjectStore in a directory.
#pragma once
#include <string>

#include "collector/logdir/object_store.h"

namespace strobe {

class FileStore final : public ObjectStore {
 public:
  explicit FileStore(std::string root) : root_(std::move(root)) {}

  absl::Status Put(std::string_view key, std::span<const std::string_view> pieces) override;
  absl::StatusOr<std::string> Get(std::string_view key) override;
  absl::StatusOr<std::vector<StoredObject>> List(std::string_view prefix) override;
  absl::Status Delete(std::string_view key) override;  // Also removes directories left empty.

 private:
  absl::StatusOr<std::string> PathOf(std::string_view key) const;

  const std::string root_;
};

// Opens file logdirs; says of others what to use instead.
class BuiltInStores final : public StoreOpener {
 public:
  absl::StatusOr<std::unique_ptr<ObjectStore>> Open(const Logdir& logdir) override;
};

}  // namespace strobe
