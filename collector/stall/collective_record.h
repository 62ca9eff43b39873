// What the agent recorded of a process's collectives, sends and receives, through the profiler
// plugin of NCCL or RCCL. It knows when a call began and not when it ended.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace strobe::stall {

struct JobEvidence;

struct CollectiveRow {
  std::int64_t number = 0;  // Among the collectives of its communicator, from 1.
  std::string call{}, type{};
  std::int64_t count = 0;
  int root = -1;              // In the communicator.
  std::int64_t begun_ns = 0;  // Since 1970.
};

struct TransferRow {
  int peer = -1;  // In the communicator.
  bool sends = false;
  std::int64_t number = 0;  // Among those with this peer in this direction, from 1.
  std::int64_t bytes = 0;
  std::int64_t begun_ns = 0;
};

struct CommunicatorRecord {
  std::string id{};  // It is the same on all ranks of the communicator.
  std::string name{};
  int rank = 0, ranks = 0;
  std::vector<CollectiveRow> calls{};  // The newest ones.
  std::vector<TransferRow> transfers{};
};

struct CollectiveRecord {
  bool whole = false;  // Nothing was overwritten: a transfer that is not in it was not begun.
  std::vector<CommunicatorRecord> communicators{};
};

bool LooksLikeCollectives(std::string_view bytes);
// DataLoss if it is damaged.
absl::StatusOr<CollectiveRecord> ReadCollectives(std::string_view bytes);

// Whether these records are the only ones of collectives. PyTorch's own tell more.
bool OnlyCollectivesTell(const JobEvidence& evidence);
// The evidence with these records in the form of PyTorch's. A collective counts as unfinished while
// a member of its communicator has not begun it, and a transfer while its other side has not.
JobEvidence WithCollectives(JobEvidence evidence);

}  // namespace strobe::stall
