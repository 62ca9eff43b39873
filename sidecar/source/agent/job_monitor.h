// Reads the observations of the programs that train: memory use and training steps. Programs with
// the agent tell them in their ring files, those that announced their framework in step files.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "agent/wire/ring_reader.h"
#include "agent/wire/ticks.h"
#include "common/base/clock.h"
#include "sidecar/capture/ports.h"
#include "sidecar/source/agent/agent_directory.h"
#include "sidecar/source/agent/ring_files.h"
#include "sidecar/source/agent/step_file_monitor.h"

namespace strobe::source {

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
