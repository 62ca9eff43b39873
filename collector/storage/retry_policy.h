// When a failed operation on a store is tried again. Pure.
#pragma once
#include <optional>

#include "absl/status/status.h"
#include "common/base/clock.h"

namespace strobe {

// Can the same operation end better if it is tried again?
bool WorthRetrying(const absl::Status& status);

// How long to wait before try number `tries + 1`, or nothing to give up. `left` is the time until
// it must have succeeded; `dice` is in [0, 1). Grows from 0.1 s by doubling to 5 s, shortened by up
// to half so that many workers do not come back at once.
std::optional<Nanos> RetryDelay(const absl::Status& status, int tries, Nanos left, double dice);

}  // namespace strobe
