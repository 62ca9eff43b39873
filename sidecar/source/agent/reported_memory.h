// The memory use of the trainer's container, as the programs in it tell it: a sidecar cannot see
// the control group of another container.
#pragma once
#include <optional>

#include "common/base/clock.h"
#include "sidecar/capture/job_signs.h"
#include "sidecar/source/agent/agent_directory.h"

namespace strobe::source {

// Only one thread may use it.
class ReportedMemory {
 public:
  // `clock` and `directory` must outlive this object.
  ReportedMemory(const Clock& clock, const AgentDirectory& directory)
      : clock_(clock), directory_(directory) {}

  // The reading that is closest to its limit. None if no program has told one lately. Programs are
  // asked for one reading every few seconds. The agent's thread for it ends at once, so that a
  // program that forks hardly ever has a thread of the agent.
  std::optional<session::SeenMemory> Look();

 private:
  const Clock& clock_;
  const AgentDirectory& directory_;
  std::optional<MonoTime> asked_at_{};
};

}  // namespace strobe::source
