// Opens what a command line names.
#pragma once
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "collector/storage/stores.h"
#include "operator/cli/runs.h"

namespace strobe {

struct OpenPlace {
  RunPlace place;
  std::unique_ptr<ObjectStore> store;
};
absl::StatusOr<OpenPlace> OpenRunPlace(StoreOpener& stores, const std::string& text);

// Says on stderr what is tried again, so that nobody waits without knowing for what.
OnRetry TellRetries();

// "PermissionDenied: words" on stderr; 2 for what the user wrote, else 1.
int Complain(const absl::Status& status);

}  // namespace strobe
