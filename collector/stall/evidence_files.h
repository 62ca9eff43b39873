// Reads evidence that lies in files: the dumps that PyTorch's watchdog leaves, answers of RAS,
// stacks, and what Strobe's agent writes. The bytes of a file decide what it is; its name tells the
// rank.
#pragma once
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "collector/stall/evidence.h"

namespace strobe::stall {

enum class EvidenceKind : std::uint8_t {
  kNoEvidence,
  kFlightPickle,
  kFlightJson,
  kCollectives,
  kRas,
  kStacks,
  kGroups,
  kSockets,
  kProcesses,
};

EvidenceKind KindOfEvidence(std::string_view bytes);

struct EvidenceName {
  int rank = -1;  // -1 if the name has none.
  bool later = false;
};

// "nccl_trace_rank_12" and "12.a.fr" are of rank 12, "12.b.fr" is its second look.
EvidenceName ParseEvidenceName(std::string_view name);

// Adds what a file holds; one without evidence is left out. `name` is the file's, without folders.
// A second file of one kind and rank is its second look. DataLoss if the file is damaged,
// InvalidArgument if its name has no rank and needs one.
absl::Status AddEvidence(std::string_view name, std::string_view bytes, JobEvidence& evidence);

}  // namespace strobe::stall
