#include "collector/store/stored_memory.h"

#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::storage {

absl::StatusOr<StoredMemory> MapObject(std::shared_ptr<ObjectStore> store, const std::string& key,
                                       std::shared_ptr<FetchPool> pool) {
  ASSIGN_OR_RETURN(const ObjectInfo info, store->Stat(key));
  const auto fetch = [store = std::move(store), key, version = info.version](
                         std::uint64_t offset, std::span<char> into) -> absl::Status {
    const absl::StatusOr<std::size_t> got = store->ReadVersion(key, version, offset, into);
    if (absl::IsNotFound(got.status()))
      return absl::DataLossError(ToAbsl(StrCat(key, " was deleted while it was read")));
    RETURN_IF_ERROR(got.status());
    if (*got == into.size()) return absl::OkStatus();
    return absl::DataLossError(ToAbsl(StrCat(key, " became shorter while it was read")));
  };
  ASSIGN_OR_RETURN(FetchedMemory memory, FetchedMemory::Map(std::move(pool), info.bytes, fetch));
  return StoredMemory{std::move(memory), info.version};
}

}  // namespace strobe::storage
