#include "cli/base/open_location.h"

#include <filesystem>
#include <iostream>

#include "cli/base/common_flags.h"
#include "common/base/duration.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::cli {
namespace {

// "PERMISSION_DENIED" as "PermissionDenied", which is how outcomes and reasons are written.
std::string CamelCase(absl::StatusCode code) {
  std::string name;
  bool upper = true;
  for (const char c : absl::StatusCodeToString(code)) {
    if (c == '_') {
      upper = true;
      continue;
    }
    name += static_cast<char>(upper ? c : c - 'A' + 'a');
    upper = false;
  }
  return name;
}

}  // namespace

absl::StatusOr<OpenLocation> OpenRunLocation(const std::string& text,
                                             const std::string& storage_config,
                                             const storage::StoreLimits& limits) {
  OpenLocation open;
  ASSIGN_OR_RETURN(storage::StorageConfig config, storage::ReadStorageConfig(storage_config));
  open.stores = std::make_unique<storage::Stores>(
      std::move(config), storage::UrlOptions::kAll, [](const absl::Status& failure, Nanos wait) {
        std::cerr << StrCat(MessageOf(failure), "; again in ", FormatDuration(wait), "\n");
      });
  ASSIGN_OR_RETURN(open.location, ParseRunLocation(storage::AbsoluteLocation(text)));
  std::error_code error;
  if (open.location.logdir.scheme() == "file" &&
      std::filesystem::is_regular_file(open.location.logdir.path(), error))
    return absl::NotFoundError(StrCat(open.location.logdir.path(), " is a file, not a logdir"));
  ASSIGN_OR_RETURN(open.store, open.stores->Open(open.location.logdir, limits));
  return open;
}

absl::StatusOr<OpenLocation> OpenExistingLocation(const std::string& text,
                                                  const std::string& storage_config,
                                                  const storage::StoreLimits& limits) {
  ASSIGN_OR_RETURN(OpenLocation open, OpenRunLocation(text, storage_config, limits));
  const storage::Logdir& logdir = open.location.logdir;
  std::error_code error;
  if (logdir.scheme() == "file" && !std::filesystem::exists(logdir.path(), error))
    return absl::NotFoundError(StrCat("there is no directory ", logdir.path()));
  return open;
}

int Complain(const absl::Status& status) {
  std::cerr << CamelCase(status.code()) << ": " << MessageOf(status) << "\n";
  return absl::IsInvalidArgument(status) ? kExitWrongFlags : kExitFailed;
}

}  // namespace strobe::cli
