// The port to whatever holds a logdir's bytes.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/logdir/byte_source.h"
#include "collector/logdir/logdir.h"
#include "common/base/cancellation.h"
#include "common/base/clock.h"

namespace strobe {

struct StoredObject {
  std::string key{};  // Relative to the logdir.
  std::uint64_t bytes = 0;
};

struct ObjectInfo {
  std::uint64_t bytes = 0;
  std::string sha256{};  // As it was given when the object was written; empty = not known.
};

struct PutOptions {
  std::string sha256{};      // Kept with the object where the store can.
  bool create_only = false;  // AlreadyExists when there is an object of that key.
};

// Objects that arrive in numbered parts, for sizes that no single request should carry. Nothing is
// visible before Commit. An upload outlives the process that began it.
class PartUploads {
 public:
  virtual ~PartUploads() = default;
  virtual absl::StatusOr<std::string> Begin(std::string_view key, std::string_view sha256) = 0;
  // Parts count from 0; all but the last have one size. Returns the part's id, for Commit.
  virtual absl::StatusOr<std::string> Part(std::string_view key, const std::string& upload,
                                           std::size_t index, const ByteSource& bytes,
                                           std::uint64_t offset, std::size_t size) = 0;
  // AlreadyExists, where the store can tell, when there is an object of that key. NotFound when the
  // upload is not known (any more).
  virtual absl::Status Commit(std::string_view key, const std::string& upload,
                              std::span<const std::string> parts) = 0;
  virtual absl::Status Abort(std::string_view key, const std::string& upload) = 0;
};

// One logdir. Keys are relative to it. Safe for concurrent use. Error codes:
//   Unavailable        a later try may cure it: network, throttling, the store's own trouble
//   Unauthenticated    the credentials have expired, or there are none yet; new ones may come
//   PermissionDenied   the identity may not
//   NotFound           no such object, bucket or upload
//   AlreadyExists      create_only, and there is one
//   ResourceExhausted  no room
//   FailedPrecondition the store cannot work as it is set up
//   Cancelled, DeadlineExceeded  by the limits that it was opened with
class ObjectStore {
 public:
  virtual ~ObjectStore() = default;
  // One object, at once. Readers see the whole of it or none.
  virtual absl::Status Put(std::string_view key, const ByteSource& bytes,
                           const PutOptions& options) = 0;
  virtual absl::StatusOr<ObjectInfo> Stat(std::string_view key) = 0;
  // Bytes from `offset` on; fewer than asked only at the object's end.
  virtual absl::StatusOr<std::size_t> Read(std::string_view key, std::uint64_t offset,
                                           std::span<char> into) = 0;
  // Objects below the prefix, which ends with '/' or is empty; in no order that one may rely on.
  // Nothing below it is no error. The visitor ends the listing with false.
  using Visitor = std::function<bool(StoredObject)>;
  virtual absl::Status List(std::string_view prefix, const Visitor& visit) = 0;
  // Names of the directories one level below the prefix.
  virtual absl::StatusOr<std::vector<std::string>> ListDirectories(std::string_view prefix) = 0;
  // What is not there is no error.
  virtual absl::Status Delete(std::span<const std::string> keys) = 0;
  // Null when Put is the way for objects of every size.
  virtual PartUploads* uploads() { return nullptr; }
};

// What bounds the work done through one open store.
struct StoreLimits {
  MonoTime deadline = MonoTime::max();
  // How long one operation may go on failing for causes that a retry can cure.
  Nanos patience = std::chrono::seconds(30);
  const Cancellation* cancellation = nullptr;  // Outlives the store.
};

// Opens the store of a logdir; InvalidArgument when its options are wrong. Connects to nothing.
class StoreOpener {
 public:
  virtual ~StoreOpener() = default;
  virtual absl::StatusOr<std::unique_ptr<ObjectStore>> Open(const Logdir& logdir,
                                                            const StoreLimits& limits) = 0;
};

// Opens the store of a logdir as people write it.
absl::StatusOr<std::unique_ptr<ObjectStore>> OpenStore(StoreOpener& stores, std::string_view logdir,
                                                       const StoreLimits& limits = {});

// Writes a text, replacing what is there.
absl::Status PutText(ObjectStore& store, std::string_view key, std::string_view text);
// The whole object; OutOfRange when it has more than `most` bytes.
absl::StatusOr<std::string> GetText(ObjectStore& store, std::string_view key, std::uint64_t most);
// Deletes all objects below the prefix and says how many there were.
absl::StatusOr<std::uint64_t> DeleteBelow(ObjectStore& store, std::string_view prefix);
// All objects below the prefix, sorted by key.
absl::StatusOr<std::vector<StoredObject>> ListAll(ObjectStore& store, std::string_view prefix);

}  // namespace strobe
