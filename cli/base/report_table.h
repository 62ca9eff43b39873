// Human-readable tables. Pure.
#pragma once
#include <string>
#include <vector>

#include "capture/attempt_result.h"

namespace strobe::cli {

// The result of a capture: a line for each worker, the processes of workers that have several or a
// failed one, the skew, what to do about failed workers, and where the run is.
std::string RenderTable(const capture::Spec& spec, const capture::AttemptResult& result);

using Row = std::vector<std::string>;
// The heading of a table of workers.
inline const Row kWorkerHeading = {"WORKER", "OUTCOME", "LATENESS", "CLOCK OFFSET",
                                   "EVENTS", "BYTES",   "MESSAGE"};
// Text with the columns of all rows aligned, three spaces apart. Rows may differ in length. Control
// characters in cells become spaces.
std::string AlignRows(std::vector<Row> rows);

// "12ms +-300us", or "not measured" without an error.
std::string FormatWithError(Nanos value, const std::optional<Nanos>& error);

// "176 kB": decimal units, three significant digits.
std::string FormatBytes(std::uint64_t bytes);

}  // namespace strobe::cli
