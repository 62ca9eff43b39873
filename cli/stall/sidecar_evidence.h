// Reads the evidence of a stalled job from sidecars, without a cluster.
#pragma once
#include <string>

#include "absl/status/statusor.h"
#include "cli/stall/evidence_places.h"

namespace strobe::cli {

// Asks all of them at once. `workers` is a list as for ParseWorkers. Unavailable if none answers;
// those that do not are among what is left out.
absl::StatusOr<FoundEvidence> ReadEvidenceOfWorkers(const std::string& workers);

}  // namespace strobe::cli
