// The interface to the store that holds a logdir's objects.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/store/byte_source.h"
#include "collector/store/logdir.h"
#include "common/base/cancellation.h"
#include "common/base/clock.h"

namespace strobe::storage {

struct StoredObject {
  std::string key{};  // Relative to the logdir.
  std::uint64_t bytes = 0;
  // Differs after the object was replaced; empty if listing does not tell. May be another text than
  // ObjectInfo::version.
  std::string version{};
  std::size_t name_begin = 0;

  // The key below the prefix that List was given; not empty.
  std::string_view name() const {
    return std::string_view(key).substr(std::min(name_begin, key.size()));
  }
};

struct ObjectInfo {
  std::uint64_t bytes = 0;
  // The checksum that was given when the object was written; empty if it is not known.
  std::string sha256{};
  // Changes when the object is replaced; empty if the store does not tell.
  std::string version{};
};

struct PutOptions {
  std::string sha256{};      // Stored with the object if the store supports it.
  bool create_only = false;  // AlreadyExists if there is an object with this key.
};

// Uploads of an object in numbered parts, for objects that are too large for one request. Nothing
// is visible before Commit. An upload outlives the process that began it.
class PartUploads {
 public:
  virtual ~PartUploads() = default;
  // Begins an upload and returns its id.
  virtual absl::StatusOr<std::string> Begin(std::string_view key, std::string_view sha256) = 0;
  // Uploads one part and returns its id, for Commit. Parts are numbered from 0; all but the last
  // have the same size.
  virtual absl::StatusOr<std::string> Part(std::string_view key, const std::string& upload,
                                           std::size_t index, const ByteSource& bytes,
                                           std::uint64_t offset, std::size_t size) = 0;
  // Makes the object visible. AlreadyExists if there is an object with this key and the store can
  // detect it. NotFound if the upload does not exist (any more).
  virtual absl::Status Commit(std::string_view key, const std::string& upload,
                              std::span<const std::string> parts) = 0;
  // Deletes the upload and its parts.
  virtual absl::Status Abort(std::string_view key, const std::string& upload) = 0;
};

// The objects of one logdir. Keys are relative to it. Safe for concurrent use. Error codes:
//   Unavailable        a retry may succeed: network, throttling, an internal error of the store
//   Unauthenticated    the credentials have expired or are not available yet; a retry may succeed
//   PermissionDenied   the identity lacks a permission
//   NotFound           there is no such object, bucket or upload
//   AlreadyExists      create_only is set and the object exists
//   ResourceExhausted  there is no space
//   FailedPrecondition the store is not set up correctly
//   Cancelled, DeadlineExceeded  the limits that the store was opened with
class ObjectStore {
 public:
  virtual ~ObjectStore() = default;
  // Writes an object atomically: readers see the whole object or none.
  virtual absl::Status Put(std::string_view key, const ByteSource& bytes,
                           const PutOptions& options) = 0;
  // Returns the size and the checksum of an object.
  virtual absl::StatusOr<ObjectInfo> Stat(std::string_view key) = 0;
  // Reads bytes from `offset` on and returns their number. It is smaller than requested only at the
  // object's end.
  virtual absl::StatusOr<std::size_t> Read(std::string_view key, std::uint64_t offset,
                                           std::span<char> into) = 0;
  // Like Read, of the version that Stat told. DataLoss if the object was replaced since then. With
  // an empty version, as from stores that do not tell versions, this cannot be noticed.
  virtual absl::StatusOr<std::size_t> ReadVersion(std::string_view key, const std::string& version,
                                                  std::uint64_t offset, std::span<char> into) = 0;
  // Lists the files below the prefix, which ends with '/' or is empty, in any order. An empty
  // result is not an error. The visitor returns false to end the listing. A bucket may also have
  // keys that are no path of a file, such as "RUN/", which consoles and mounted buckets write for a
  // folder, or "RUN//x"; they are left out here, like those that the store cannot read.
  using Visitor = std::function<bool(StoredObject)>;
  absl::Status List(std::string_view prefix, const Visitor& visit);
  // Returns the names of the directories one level below the prefix, each once. There need not be
  // a file in them.
  absl::StatusOr<std::vector<std::string>> ListDirectories(std::string_view prefix);
  // Deletes objects, also those that List leaves out. A missing object is not an error.
  virtual absl::Status Delete(std::span<const std::string> keys) = 0;
  // What the store itself lists, which nobody has checked: a key may be any text, and need not be
  // below the prefix. For List and for deleting; everybody else calls List.
  virtual absl::Status ListUnchecked(std::string_view prefix, const Visitor& visit) = 0;
  // Like ListUnchecked, for ListDirectories.
  virtual absl::StatusOr<std::vector<std::string>> ListDirectoriesUnchecked(
      std::string_view prefix) = 0;
  // Whether objects can be written below the prefix, as far as the store tells that without writing
  // one. Stores in the network do not, and return OK.
  virtual absl::Status CheckWritable(std::string_view /*prefix*/) { return absl::OkStatus(); }
  // Whether the store can read objects with such keys, if they exist.
  virtual bool CanRead(std::string_view /*key*/) const { return true; }
  // Null if the store writes objects of every size with Put.
  virtual PartUploads* uploads() { return nullptr; }
};

// Limits for the operations on an open store.
struct StoreLimits {
  MonoTime deadline = MonoTime::max();
  // How long one operation is retried after failures that a retry can cure.
  Nanos patience = std::chrono::seconds(30);
  const Cancellation* cancellation = nullptr;  // Must outlive the store.
};

// Opens the store of a logdir. InvalidArgument if its options are wrong. Does not connect.
class StoreOpener {
 public:
  virtual ~StoreOpener() = default;
  virtual absl::StatusOr<std::unique_ptr<ObjectStore>> Open(const Logdir& logdir,
                                                            const StoreLimits& limits) = 0;
};

// Parses a logdir and opens its store.
absl::StatusOr<std::unique_ptr<ObjectStore>> OpenStore(StoreOpener& stores, std::string_view logdir,
                                                       const StoreLimits& limits = {});

// Writes a text and replaces an existing object.
absl::Status PutText(ObjectStore& store, std::string_view key, std::string_view text);
// Returns the whole object. OutOfRange if it has more than `most` bytes.
absl::StatusOr<std::string> GetText(ObjectStore& store, std::string_view key, std::uint64_t most);
// Deletes all objects below the prefix, whatever their keys are, and returns their number.
absl::StatusOr<std::uint64_t> DeleteBelow(ObjectStore& store, std::string_view prefix);
// Returns all files below the prefix, sorted by key.
absl::StatusOr<std::vector<StoredObject>> ListAll(ObjectStore& store, std::string_view prefix);
// Whether there is a file below the prefix.
absl::StatusOr<bool> HasFiles(ObjectStore& store, std::string_view prefix);

}  // namespace strobe::storage
