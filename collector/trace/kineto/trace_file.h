// Reads a trace file in Chrome's JSON format, as PyTorch's Kineto, Chrome, TensorFlow and Perfetto
// write it, and converts it to an XSpace. The file is read as a stream: besides the result, the
// memory is bounded, whatever the file contains.
#pragma once
#include <functional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collector/trace/kineto/read_report.h"
#include "collector/trace/kineto/space_writer.h"

namespace strobe::kineto {

// Fills a part of `room` with the next bytes of the file and returns how many there are; 0 at the
// end.
using Source = std::function<absl::StatusOr<std::size_t>(std::span<char> room)>;

// Does a file with this name hold such a trace?
bool IsTraceFileName(std::string_view name);

// Returns the XSpace of the file, which may be compressed by gzip. What cannot be read is left out,
// counted, and reported in the XSpace's warnings. DataLoss when the file is no trace at all;
// otherwise errors are those of the source. `report` is complete also when there was an error.
// `known` is what the recorded process said.
absl::StatusOr<std::string> ReadTraceFile(const Source& source, ReadReport& report,
                                          const RecordedWindow& known = {});

}  // namespace strobe::kineto
