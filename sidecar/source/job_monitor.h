// What programs with the agent tell of how they fare: their memory's use, and their training steps.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "agent/wire/ring_reader.h"
#include "agent/wire/ticks.h"
#include "common/base/clock.h"
#include "sidecar/session/ports.h"
#include "sidecar/source/agent_directory.h"
#include "sidecar/source/ring_files.h"

namespace strobe {

// Steps are annotations with step_num (StepTraceMe, strobe.Trace(..., step_num=...)). While steps
// matter, annotations of the first level are switched on, whatever a capture asks for.
class RingMonitor final : public session::JobMonitor {
 public:
  // `directory` outlives it.
  RingMonitor(const Clock& clock, const AgentDirectory& directory)
      : clock_(clock), directory_(directory) {}

  void Begin(const v1::CapturePlan& plan) override;
  session::JobSigns Look() override;
  void End() override;

 private:
  struct Program {
    GuardedRings rings{};
    wire::TickKind ticks{};
    wire::TickMoment opened{};  // With CLOCK_MONOTONIC.
    std::string name{};
    std::vector<wire::RingReader> readers{};
    std::uint64_t lost = 0;
  };

  void FindPrograms();
  void LookAtMemory(const Program& program, session::JobSigns& signs) const;
  void LookAtSteps(Program& program, session::JobSigns& signs);

  const Clock& clock_;
  const AgentDirectory& directory_;
  std::map<std::string, Program> programs_;  // By ring file.
  wire::RecordBuffer buffer_{};
  std::uint64_t memory_until_ = 0;  // See FileHeader.attend_until; 0 = memory does not matter.
  bool steps_ = false;              // Do they matter?
  MonoTime found_{};
};

}  // namespace strobe
