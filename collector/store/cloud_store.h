// Opens S3, Google Cloud Storage and Azure Blob Storage through the bridge. Every call makes one
// request without retries; see retrying_store.h.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "collector/store/object_store.h"

namespace strobe::storage {

// `options` are the crate's keys and "ca_bundle" (see store_options.h). InvalidArgument names the
// wrong option.
absl::StatusOr<std::unique_ptr<ObjectStore>> OpenCloudStore(
    const Logdir& logdir, const std::map<std::string, std::string>& options,
    const StoreLimits& limits);

}  // namespace strobe::storage
