// Opens trace files in Chrome's JSON format as traces.
#pragma once
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "collector/convert/align.h"
#include "collector/xplane/file_kind.h"

namespace strobe {

// Returns a file's name without its folder and endings: "rank0" for "rank0.pt.trace.json.gz".
std::string WorkerOfTraceJson(std::string_view file);

// The first bytes of a file, of which these are the first ones, without its compression by gzip.
std::string PlainHead(std::string_view raw, std::size_t most = xplane::kHeadBytes);

// Converts the file at `path`. What could not be read is told on stderr.
absl::StatusOr<convert::OpenTrace> OpenTraceJson(const std::string& path);
// The same for the bytes of a file in a store. `name` is for messages.
absl::StatusOr<convert::OpenTrace> ReadTraceJson(const std::string& name, std::string_view bytes);

}  // namespace strobe
