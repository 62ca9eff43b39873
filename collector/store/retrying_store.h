// Retries failed operations of a store, within the limits that it was opened with.
#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "collector/store/object_store.h"
#include "common/base/clock.h"

namespace strobe::storage {

// True if a retry may succeed.
bool WorthRetrying(const absl::Status& status);

// True if every other object would be refused too, until somebody changes the store or the logdir:
// there is no such bucket, for example. Such a failure is not WorthRetrying.
inline bool WillFailAgain(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsPermissionDenied(status) ||
         absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status) ||
         absl::IsUnimplemented(status);
}

// Returns how long to wait before attempt number `tries + 1`; nothing to give up. `left` is the
// time until the operation must have succeeded; `dice` is a random number in [0, 1). The wait
// doubles from 0.1 s up to 5 s. It is shortened by up to half, so that many workers do not retry at
// the same time.
std::optional<Nanos> RetryDelay(const absl::Status& status, int tries, Nanos left, double dice);

// Called for each failure that is followed by a retry.
using OnRetry = std::function<void(const absl::Status& failure, Nanos wait)>;

// Wraps `inner`, which makes each request once.
std::unique_ptr<ObjectStore> WithRetries(std::unique_ptr<ObjectStore> inner,
                                         const StoreLimits& limits, OnRetry on_retry);

}  // namespace strobe::storage
