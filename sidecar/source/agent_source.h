// Records what the agent inside a worker's programs writes into its rings: annotations, and what
// the programs' GPUs do.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "collector/base/clock.h"
#include "sidecar/session/ports.h"
#include "sidecar/source/recorded_program.h"

namespace strobe {

struct AgentOptions {
  std::string directory;  // Where the programs' ring files are: $STROBE_DIR/agent.
  // Most bytes of records kept of one capture; what comes after is counted and dropped.
  std::uint64_t most_bytes = 256u << 20;
  // With a FlightRecorder: how far before its start a capture reaches, as far as the rings go, and
  // the level at which programs go on recording afterwards.
  Nanos look_back{0};
  std::uint32_t idle_level = 0;
};

// The window is exact: programs are told to record a little early, and what lies outside of the
// guarded window is left out. Record is not to be called twice at once; Probe is safe at any time.
class AgentSource final : public session::Source {
 public:
  AgentSource(const Clock& clock, AgentOptions options);

  std::vector<v1::Source> Probe(Nanos timeout) override;
  Nanos lead() const override;
  session::Recording Record(const v1::CapturePlan& plan, const Cancellation& cancel,
                            const Cancellation& terminate,
                            const std::function<void()>& collecting) override;

 private:
  using Programs = std::map<std::string, std::unique_ptr<RecordedProgram>>;  // By ring file.

  void AwaitDevices(const Programs& programs, const Cancellation& cancel,
                    std::uint64_t& budget) const;
  // `left_out`: programs that may belong to the capture and were not recorded.
  session::Recording Collect(const Programs& programs, const TraceWindow& window,
                             std::size_t left_out, std::uint64_t budget) const;

  const Clock& clock_;
  const AgentOptions options_;
};

}  // namespace strobe
