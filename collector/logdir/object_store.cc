#include "collector/logdir/object_store.h"

#include <algorithm>
#include <array>

#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe {

absl::StatusOr<std::unique_ptr<ObjectStore>> OpenStore(StoreOpener& stores, std::string_view logdir,
                                                       const StoreLimits& limits) {
  ASSIGN_OR_RETURN(const Logdir parsed, Logdir::Parse(logdir));
  return stores.Open(parsed, limits);
}

absl::Status PutText(ObjectStore& store, std::string_view key, std::string_view text) {
  const std::array<std::string_view, 1> pieces = {text};
  return store.Put(key, MemoryBytes(pieces), {});
}

absl::StatusOr<std::string> GetText(ObjectStore& store, std::string_view key, std::uint64_t most) {
  // Each attempt reads the whole object with one call, so that the text is never combined from two
  // versions.
  for (std::uint64_t room = std::min<std::uint64_t>(most, 1 << 20);; room = most) {
    std::string text(static_cast<std::size_t>(room + 1), '\0');
    ASSIGN_OR_RETURN(const std::size_t got, store.Read(key, 0, text));
    if (got <= room) {
      text.resize(got);
      return text;
    }
    if (room == most) return absl::OutOfRangeError(StrCat(key, " is larger than ", most, " bytes"));
  }
}

absl::StatusOr<std::uint64_t> DeleteBelow(ObjectStore& store, std::string_view prefix) {
  ASSIGN_OR_RETURN(const std::vector<StoredObject> objects, ListAll(store, prefix));
  std::vector<std::string> keys;
  for (const StoredObject& object : objects) keys.push_back(object.key);
  RETURN_IF_ERROR(store.Delete(keys));
  return keys.size();
}

absl::StatusOr<std::vector<StoredObject>> ListAll(ObjectStore& store, std::string_view prefix) {
  std::vector<StoredObject> objects;
  RETURN_IF_ERROR(store.List(prefix, [&](StoredObject object) {
    objects.push_back(std::move(object));
    return true;
  }));
  std::sort(objects.begin(), objects.end(),
            [](const auto& a, const auto& b) { return a.key < b.key; });
  return objects;
}

}  // namespace strobe
