// Reads the operations of the published jobs in tests/data/straggler-analysis.
#pragma once
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/fakes/pipeline_operations.h"

namespace strobe {

// The bytes of a file that may be compressed by gzip.
absl::StatusOr<std::string> ReadPublishedFile(const std::string& path);

// The operations of a .txt.gz file; README.md beside it describes the format.
absl::StatusOr<std::vector<report::PipelineOperation>> ReadPublishedJob(const std::string& path);

}  // namespace strobe
