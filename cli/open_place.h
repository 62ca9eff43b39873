// Opens what a command line names.
#pragma once
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "cli/runs.h"
#include "collector/storage/stores.h"

namespace strobe {

// The stores of a command, as its storage configuration says. Says on stderr what is tried again,
// so that nobody waits without knowing for what.
absl::StatusOr<std::unique_ptr<Stores>> CommandStores(const std::string& storage_config);

struct OpenPlace {
  RunPlace place;
  std::unique_ptr<ObjectStore> store;
};
absl::StatusOr<OpenPlace> OpenRunPlace(StoreOpener& stores, const std::string& text);

// "PermissionDenied: words" on stderr; 2 for what the user wrote, else 1.
int Complain(const absl::Status& status);

}  // namespace strobe
