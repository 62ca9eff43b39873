// Whether another attempt can end better. Pure.
#pragma once
#include <optional>

#include "common/base/clock.h"
#include "operator/core/attempt_result.h"

namespace strobe {

// How long to wait before the next attempt; nothing when this one is the last word.
std::optional<Nanos> RetryAfter(const CaptureSpec& spec, const AttemptResult& result);

}  // namespace strobe
