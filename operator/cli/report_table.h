// What a person sees after a capture. Pure.
#pragma once
#include <string>

#include "operator/core/attempt_result.h"

namespace strobe {

// A line per worker (outcome, lateness, clock offset, events, bytes), then skew and where the run
// is.
std::string RenderTable(const CaptureSpec& spec, const AttemptResult& result);

// "176 kB": decimal units, three digits.
std::string FormatBytes(std::uint64_t bytes);

}  // namespace strobe
