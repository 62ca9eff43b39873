// Whether a failed capture is worth another attempt. Pure.
#pragma once
#include <optional>

#include "capture/attempt_result.h"
#include "common/base/clock.h"

namespace strobe::capture {

inline constexpr Nanos kMaxRetryWait = std::chrono::seconds(30);

// How long to wait before the next attempt: 1 s, doubled with each attempt, up to kMaxRetryWait.
// None when the capture succeeded, was cancelled, or no attempt is left, or another one cannot
// succeed.
std::optional<Nanos> RetryAfter(const CaptureSpec& spec, const AttemptResult& result);

}  // namespace strobe::capture
