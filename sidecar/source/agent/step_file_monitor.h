// Reads the observations of processes that announced their framework: training steps and, while
// they are recorded, memory use. For the job guard.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/wire/cgroup_memory.h"
#include "common/base/clock.h"
#include "sidecar/capture/ports.h"
#include "sidecar/source/agent/agent_directory.h"
#include "sidecar/source/base/announcements.h"

namespace strobe::source {

// Takes the memory use if it is closer to its limit than that of `signs`. Programs of one container
// report the same values.
void TakeCloser(const wire::MemoryUse& use, session::JobSigns& signs);

// Only one thread may use it.
class StepFileMonitor {
 public:
  // `clock` and `directory` must outlive this object.
  StepFileMonitor(const Clock& clock, const AgentDirectory& directory)
      : clock_(clock), directory_(directory) {}

  // Adds what the processes tell now: of their steps, those that ended since the last call, and at
  // the first call the last steps of each loop. A process that announces itself later is found
  // within a second.
  void Look(bool memory, bool steps, session::JobSigns& signs);
  void End();

 private:
  const Clock& clock_;
  const AgentDirectory& directory_;
  std::vector<Announcement> processes_;
  std::optional<MonoTime> found_;
  // By the name of the file and the loop's place in it; see AddEndedSteps.
  std::map<std::string, std::uint64_t> told_until_ns_;
};

}  // namespace strobe::source
