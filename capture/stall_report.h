// What the sidecars of a job told of its processes while they may stand still, joined, judged
// (collector/stall), and in the forms that statuses and runs have. Pure.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::stall {
struct JobEvidence;
}  // namespace strobe::stall

namespace strobe::capture {

// The answer of one worker's sidecar, and what is known of the worker from elsewhere.
struct WorkerEvidence {
  std::string name{}, file{};  // As in its Target.
  std::string address{};       // host:port of its sidecar.
  std::string pod{}, node{};   // Empty without Kubernetes.
  int rank = -1;               // The pod's in its job; -1 = not known.
  std::size_t processes = 1;   // How many of the job run in its pod.
  std::vector<v1::EvidenceFile> files{};
  std::vector<std::string> notes{};
  std::uint64_t left_out_bytes = 0;
  std::string missing{};  // Why there is no answer; empty if there is one.
};

// Notes what a worker's sidecar answered, or why it did not.
void TakeAnswer(absl::StatusOr<v1::ReadEvidenceResponse> answer, WorkerEvidence& worker);

struct JobEvidenceOrder {
  std::string capture_id{}, run{};
  WallTime looked_at{};
  std::vector<WorkerEvidence> workers{};
};

// A rank that holds up the job.
struct StallCulprit {
  int rank = -1;
  std::string pod{}, node{};  // Empty = not known.
  std::string line{};         // Where its program is: "loader.py:88 in Loader.next".

  bool operator==(const StallCulprit&) const = default;
};

struct StallReport {
  // "Host", "OtherBranch", "Progressing"; empty = nothing was judged.
  std::string kind{};
  std::string confidence{};  // "Firm", "Probably", "CannotTell".
  std::string text{};        // The verdict in sentences, each line ended.
  std::string stacks{};      // Equal stacks of main threads put together, the odd ones first.
  std::vector<StallCulprit> culprits{};
  std::string json{};      // The content of evidence.json.
  std::string url{};       // Empty when it could not be written.
  std::string not_kept{};  // Why files of a worker are not in the run; empty if all are.

  bool empty() const { return kind.empty(); }
  // Whether the job stands still, as far as the evidence tells.
  bool stalled() const { return !empty() && kind != "Progressing" && kind != "Unknown"; }
};

// Sidecars write no larger one.
inline constexpr std::size_t kMaxEvidenceJsonBytes = 2u << 20;

// The evidence of all workers, by rank, as collector/stall judges it. What cannot be read is noted
// at its worker.
stall::JobEvidence JoinEvidence(JobEvidenceOrder& order);

// Judges the evidence. Files that are too large, all together, to be kept in the run are emptied as
// they are read, and a note says so: the order may hold hundreds of MiB.
StallReport ReportStall(JobEvidenceOrder& order);

}  // namespace strobe::capture
