#include "collector/store/object_store.h"

#include <algorithm>
#include <array>

#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::storage {
namespace {

bool IsNameOfEntry(std::string_view name) { return !name.empty() && name != "." && name != ".."; }

// Whether the key can be the path of a file below the prefix.
bool IsFileBelow(std::string_view prefix, std::string_view key) {
  if (!key.starts_with(prefix)) return false;
  for (key.remove_prefix(prefix.size());;) {
    const std::size_t slash = key.find('/');
    if (!IsNameOfEntry(key.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    key.remove_prefix(slash + 1);
  }
}

}  // namespace

absl::Status ObjectStore::List(std::string_view prefix, const Visitor& visit) {
  return ListUnchecked(prefix, [&](StoredObject object) {
    if (!IsFileBelow(prefix, object.key) || !CanRead(object.key)) return true;
    object.name_begin = prefix.size();
    return visit(std::move(object));
  });
}

absl::StatusOr<std::vector<std::string>> ObjectStore::ListDirectories(std::string_view prefix) {
  ASSIGN_OR_RETURN(std::vector<std::string> names, ListDirectoriesUnchecked(prefix));
  std::erase_if(names, [this](const std::string& name) {
    return !IsNameOfEntry(name) || name.find('/') != std::string::npos || !CanRead(name);
  });
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

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
  std::vector<std::string> keys;
  RETURN_IF_ERROR(store.ListUnchecked(prefix, [&](StoredObject object) {
    if (object.key.starts_with(prefix)) keys.push_back(std::move(object.key));
    return true;
  }));
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
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

absl::StatusOr<bool> HasFiles(ObjectStore& store, std::string_view prefix) {
  bool any = false;
  RETURN_IF_ERROR(store.List(prefix, [&](const StoredObject&) {
    any = true;
    return false;
  }));
  return any;
}

}  // namespace strobe::storage
