// What programs with the agent tell of how they fare: their memory's use, and their training steps.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "collector/base/clock.h"
#include "sidecar/session/ports.h"
#include "sidecar/wire/ring_file.h"
#include "sidecar/wire/ring_reader.h"
#include "sidecar/wire/ticks.h"

namespace strobe {

// Steps are annotations with step_num (StepTraceMe, strobe.Trace(..., step_num=...)). Where nobody
// records annotations yet those of the first level are switched on; a capture with tracers.host 0
// switches them off.
class RingMonitor final : public session::JobMonitor {
 public:
  // Of the ring files in `directory`: $STROBE_DIR/agent.
  RingMonitor(const Clock& clock, std::string directory);

  void Begin(const v1::CapturePlan& plan) override;
  session::JobSigns Look() override;
  void End() override;

 private:
  struct Program {
    wire::RingFile file;
    wire::TickMoment opened{};  // With CLOCK_MONOTONIC.
    std::string name{};
    std::vector<wire::RingReader> readers{};
    std::uint64_t lost = 0;
    bool switched_on = false;
  };

  void FindPrograms();
  void LookAtMemory(const Program& program, session::JobSigns& signs) const;
  void LookAtSteps(Program& program, session::JobSigns& signs) const;

  const Clock& clock_;
  const std::string directory_;
  std::map<std::string, Program> programs_;  // By ring file.
  std::uint64_t memory_until_ = 0;           // See FileHeader; 0 = memory does not matter.
  bool steps_ = false;                       // Do they matter?
  MonoTime found_{};
};

}  // namespace strobe
