// Retries failed operations of a store by retry_policy.h, within the limits that it was opened
// with.
#pragma once
#include <functional>
#include <memory>

#include "collector/store/object_store.h"

namespace strobe::storage {

// Called for each failure that is followed by a retry.
using OnRetry = std::function<void(const absl::Status& failure, Nanos wait)>;

// Wraps `inner`, which makes each request once.
std::unique_ptr<ObjectStore> WithRetries(std::unique_ptr<ObjectStore> inner,
                                         const StoreLimits& limits, OnRetry on_retry);

}  // namespace strobe::storage
