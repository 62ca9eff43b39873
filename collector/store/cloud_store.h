// Opens a logdir in object storage: S3, GCS or Azure.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "collector/store/object_store.h"

namespace strobe::storage {

// `options` are the crate's keys and "ca_bundle" (see store_options.h). InvalidArgument names the
// wrong option. FailedPrecondition: the build has no object storage (STROBE_OBJECT_STORAGE).
absl::StatusOr<std::unique_ptr<ObjectStore>> OpenCloudStore(
    const Logdir& logdir, const std::map<std::string, std::string>& options,
    const StoreLimits& limits);

}  // namespace strobe::storage
