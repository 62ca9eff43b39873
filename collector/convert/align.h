// Traces of one run, opened and put on one clock.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/convert/traces.h"
#include "common/base/mapped_file.h"

namespace strobe::convert {

struct OpenTrace {
  std::string worker{};  // File name without ".xplane.pb".
  std::string path{};    // On this machine; empty when it came from elsewhere.
  // Mapped where the file is on this machine, else read into memory. Their address stays when the
  // object is moved.
  std::variant<std::unique_ptr<const std::string>, MappedFile> content{};

  std::string_view bytes() const {
    const auto* text = std::get_if<std::unique_ptr<const std::string>>(&content);
    return text != nullptr ? std::string_view(**text) : std::get<MappedFile>(content).bytes();
  }
  // DataLoss when its file was changed since it was opened.
  absl::Status Check() const {
    const auto* file = std::get_if<MappedFile>(&content);
    return file == nullptr ? absl::OkStatus() : file->Check();
  }
};

// What became of work on these traces: that one of them was changed meanwhile, or else `result`.
absl::Status Unchanged(const std::vector<OpenTrace>& traces, absl::Status result);

struct AlignedTraces {
  std::vector<convert::WorkerTrace> workers{};
  std::int64_t zero_ns = 0;  // From which their shifts count, Unix time; 0 = no trace says.
};

// Puts traces on one clock: each worker's own start, less the clock offset that its capture
// measured. Refers to the bytes of `traces`.
absl::StatusOr<AlignedTraces> AlignTraces(const std::vector<OpenTrace>& traces,
                                          xplane::Depth depth = xplane::Depth::kLines);

// One trace, its lines' time stamps counted from the trace's zero, as AlignTraces has them.
absl::StatusOr<xplane::Space> ReadSpace(std::string_view trace);

}  // namespace strobe::convert
