// S3, Google Cloud Storage and Azure Blob Storage, through the bridge. One request per call, no
// retries: see retrying_store.h.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "collector/logdir/object_store.h"

namespace strobe {

// Options are the crate's keys and "ca_bundle" (see store_options.h). InvalidArgument says which
// one is wrong.
absl::StatusOr<std::unique_ptr<ObjectStore>> OpenCloudStore(
    const Logdir& logdir, const std::map<std::string, std::string>& options,
    const StoreLimits& limits);

}  // namespace strobe
