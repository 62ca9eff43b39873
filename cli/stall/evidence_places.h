// Reads the evidence of a stalled job from the files and folders that a command line names.
#pragma once
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/stall/evidence.h"

namespace strobe::cli {

struct FoundEvidence {
  stall::JobEvidence evidence{};
  std::vector<std::string> left_out{};  // Files that could not be read, each with the reason.
  std::vector<std::string> notes{};     // What workers did not tell, and why, in sentences.
};

// Reads files in the order of their names, those of folders with all folders below. NotFound if a
// place does not exist or nothing of them is evidence; InvalidArgument if a file that was named
// itself holds none.
absl::StatusOr<FoundEvidence> ReadEvidence(const std::vector<std::string>& places);

}  // namespace strobe::cli
