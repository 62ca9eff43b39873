// Collects what the processes of a worker show while they may stand still.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/base/cancellation.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "sidecar/stall/evidence_processes.h"
#include "sidecar/stall/ras_client.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::stall {

// Shortens the kernel's table of connections to the lines that collector/stall/sockets.h reads: one
// for each pair of addresses that an established connection to another machine joins, rather one
// that retransmits. Pure.
std::string ShortSocketTable(std::string_view table);

// The table of the sidecar's network namespace, which is the pod's. Empty if it cannot be read.
std::string ReadSocketTable();

// Safe for concurrent use.
class EvidenceCollector {
 public:
  // Returns what Source::Steps does. Safe for concurrent use.
  using TellSteps = std::function<std::vector<v1::StepPace>()>;

  // `directory` is that of the agent. Removes old evidence from it once a minute. `steps` may be
  // null.
  EvidenceCollector(const Clock& clock, std::string directory, RasOptions ras = {},
                    TellSteps steps = nullptr);
  ~EvidenceCollector();
  EvidenceCollector(const EvidenceCollector&) = delete;
  EvidenceCollector& operator=(const EvidenceCollector&) = delete;

  // Answers Worker.ReadEvidence, within four seconds more than lie between the looks. One at a
  // time: Unavailable after having waited for another. Cancelled once `is_wanted` returns false.
  absl::StatusOr<v1::ReadEvidenceResponse> Read(const v1::ReadEvidenceRequest& request,
                                                const std::function<bool()>& is_wanted);

 private:
  absl::StatusOr<v1::ReadEvidenceResponse> Collect(const v1::ReadEvidenceRequest& request,
                                                   const std::function<bool()>& is_wanted) const;
  void AskProcesses(std::map<int, EvidenceProcess>& processes, const EvidenceOrder& order,
                    const std::function<bool()>& is_wanted) const;
  std::vector<v1::StepPace> Steps() const;
  void RemoveOld() const;

  const Clock& clock_;
  const std::string directory_;
  const RasOptions ras_;
  const TellSteps steps_;
  Mutex mutex_;
  bool collects_ ABSL_GUARDED_BY(mutex_) = false;
  Cancellation stop_;
  std::thread thread_;  // Last: it uses the rest.
};

}  // namespace strobe::stall
