// What a person sees after a capture. Pure.
#pragma once
#include <string>
#include <vector>

#include "operator/core/attempt_result.h"

namespace strobe {

// A line per worker (outcome, lateness, clock offset, events, bytes), the processes of workers that
// have several or a bad one, then skew and where the run is.
std::string RenderTable(const CaptureSpec& spec, const AttemptResult& result);

// Columns of one width each, three spaces apart; the first row is the heading.
using Row = std::vector<std::string>;
std::string AlignRows(const std::vector<Row>& rows);

// "176 kB": decimal units, three digits.
std::string FormatBytes(std::uint64_t bytes);

}  // namespace strobe
