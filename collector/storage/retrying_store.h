// Repeats what a store failed to do, as retry_policy.h says, within the limits it was opened with.
#pragma once
#include <functional>
#include <memory>

#include "collector/logdir/object_store.h"

namespace strobe {

// Told of each failure that is followed by another try.
using OnRetry = std::function<void(const absl::Status& failure, Nanos wait)>;

// `inner` answers each call once.
std::unique_ptr<ObjectStore> WithRetries(std::unique_ptr<ObjectStore> inner,
                                         const StoreLimits& limits, OnRetry on_retry);

}  // namespace strobe
