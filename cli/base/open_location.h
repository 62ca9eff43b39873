// Opens the logdirs that a command line names, and reports errors to the user.
#pragma once
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "cli/base/runs.h"
#include "collector/store/stores.h"

namespace strobe::cli {

// A logdir, or one of its runs, with its open store.
struct OpenLocation {
  RunLocation location{};
  std::unique_ptr<storage::Stores> stores{};
  std::unique_ptr<storage::ObjectStore> store{};
};

// Opens what `text` names; see ParseRunLocation. `storage_config` is the file of --storage-config,
// or empty. When an operation is tried again, stderr says why, so that the user knows what the
// command is waiting for. InvalidArgument when `text` or the file is wrong, NotFound when `text`
// names a file on this machine. Connects to nothing yet.
absl::StatusOr<OpenLocation> OpenRunLocation(const std::string& text,
                                             const std::string& storage_config,
                                             const storage::StoreLimits& limits = {});

// Opens what a command reads: NotFound also for a folder of this machine that does not exist.
absl::StatusOr<OpenLocation> OpenExistingLocation(const std::string& text,
                                                  const std::string& storage_config,
                                                  const storage::StoreLimits& limits = {});

// Prints "PermissionDenied: <message>" to stderr. Returns the exit code: kExitWrongFlags for
// InvalidArgument, otherwise kExitFailed.
int Complain(const absl::Status& status);

}  // namespace strobe::cli
