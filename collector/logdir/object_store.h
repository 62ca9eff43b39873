// The port to whatever holds a logdir's bytes.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/logdir/logdir.h"

namespace strobe {

struct StoredObject {
  std::string key;  // Relative to the logdir.
  std::uint64_t bytes = 0;
};

// One logdir. Keys are relative to it. Safe for concurrent use. Error codes: PermissionDenied and
// Unauthenticated when the identity may not, NotFound, ResourceExhausted when there is no room,
// Unavailable for what a later try may cure.
class ObjectStore {
 public:
  virtual ~ObjectStore() = default;
  // Writes the pieces one after the other as one object. Readers see the whole object or none;
  // an object of that key is replaced.
  virtual absl::Status Put(std::string_view key, std::span<const std::string_view> pieces) = 0;
  virtual absl::StatusOr<std::string> Get(std::string_view key) = 0;
  // Objects below the prefix, in the order of their keys.
  virtual absl::StatusOr<std::vector<StoredObject>> List(std::string_view prefix) = 0;
  virtual absl::Status Delete(std::string_view key) = 0;  // OK when it was not there.
};

// Opens the store of a logdir; InvalidArgument when the scheme is not built in.
class StoreOpener {
 public:
  virtual ~StoreOpener() = default;
  virtual absl::StatusOr<std::unique_ptr<ObjectStore>> Open(const Logdir& logdir) = 0;
};

// Opens the store of a logdir as people write it.
inline absl::StatusOr<std::unique_ptr<ObjectStore>> OpenStore(StoreOpener& stores,
                                                              std::string_view logdir) {
  const absl::StatusOr<Logdir> parsed = Logdir::Parse(logdir);
  if (!parsed.ok()) return parsed.status();
  return stores.Open(*parsed);
}

}  // namespace strobe
