// Reads the observations of the programs that train: memory use and training steps. Programs with
// the agent tell them in their ring files, those that announced their framework in step files.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/wire/cgroup_memory.h"
#include "agent/wire/ring_reader.h"
#include "agent/wire/ticks.h"
#include "common/base/clock.h"
#include "sidecar/capture/ports.h"
#include "sidecar/source/agent/agent_directory.h"
#include "sidecar/source/agent/ring_files.h"
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

// Steps are annotations with step_num (StepTraceMe, strobe.Trace(..., step_num=...)). While steps
// are needed, annotations of level 1 are switched on even if no capture asks for them.
class RingMonitor final : public session::JobMonitor {
 public:
  // `clock` and `directory` must outlive this object.
  RingMonitor(const Clock& clock, const AgentDirectory& directory)
      : clock_(clock), directory_(directory), step_files_(clock, directory) {}

  void Begin(const v1::CapturePlan& plan) override;
  session::JobSigns Look() override;
  void End() override;

 private:
  struct Program {
    GuardedRings rings{};
    wire::TickKind ticks{};
    wire::TickMoment opened{};  // Ticks and CLOCK_MONOTONIC when the file was opened.
    std::string name{};
    std::vector<wire::RingReader> readers{};
    std::uint64_t lost = 0;
  };

  void FindPrograms();
  void LookAtMemory(const Program& program, session::JobSigns& signs) const;
  void LookAtSteps(Program& program, session::JobSigns& signs);

  const Clock& clock_;
  const AgentDirectory& directory_;
  StepFileMonitor step_files_;
  std::map<std::string, Program> programs_;  // By path of the ring file.
  wire::RecordBuffer buffer_{};
  // See FileHeader::attend_until; 0 if memory use is not needed.
  std::uint64_t memory_until_ = 0;
  bool steps_ = false;  // True if steps are needed.
  MonoTime found_{};
};

}  // namespace strobe::source
