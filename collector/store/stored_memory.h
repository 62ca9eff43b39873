// An object in a store as memory.
#pragma once
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "collector/store/object_store.h"
#include "common/memory/fetched_memory.h"

namespace strobe::storage {

struct StoredMemory {
  FetchedMemory memory;
  // As in ObjectInfo: which version of the object this is.
  std::string version{};
};

// The object's bytes, which are read from the store by ranges when they are needed. An object that
// is replaced, deleted or shortened meanwhile is DataLoss, told by FetchedMemory::Check. Errors are
// those of ObjectStore::Stat.
absl::StatusOr<StoredMemory> MapObject(std::shared_ptr<ObjectStore> store, const std::string& key,
                                       std::shared_ptr<FetchPool> pool);

}  // namespace strobe::storage
