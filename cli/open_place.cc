#include "cli/open_place.h"

#include <iostream>

#include "common/base/duration.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe {

absl::StatusOr<std::unique_ptr<Stores>> CommandStores(const std::string& storage_config) {
  ASSIGN_OR_RETURN(StorageConfig config, ReadStorageConfig(storage_config));
  return std::make_unique<Stores>(
      std::move(config), UrlOptions::kAll, [](const absl::Status& failure, Nanos wait) {
        std::cerr << StrCat(Words(failure), "; again in ", FormatDuration(wait), "\n");
      });
}

absl::StatusOr<OpenPlace> OpenRunPlace(StoreOpener& stores, const std::string& text) {
  OpenPlace open;
  ASSIGN_OR_RETURN(open.place, ParseRunPlace(text));
  ASSIGN_OR_RETURN(open.store, stores.Open(open.place.logdir, {}));
  return open;
}

int Complain(const absl::Status& status) {
  const bool users = absl::IsInvalidArgument(status);
  // CamelCase, as in every other message of this command.
  std::string code;
  bool upper = true;
  for (const char c : absl::StatusCodeToString(status.code())) {
    if (c == '_')
      upper = true;
    else
      code += static_cast<char>(upper ? c : c - 'A' + 'a'), upper = false;
  }
  std::cerr << code << ": " << Words(status) << "\n";
  return users ? 2 : 1;
}

}  // namespace strobe
