// Records what the agent inside a worker's programs writes into its rings: annotations, and what
// the programs' GPUs do.
#pragma once
#include <string>

#include "common/base/clock.h"
#include "sidecar/session/ports.h"
#include "sidecar/source/agent_directory.h"
#include "sidecar/source/program_set.h"

namespace strobe {

struct AgentOptions {
  // Most bytes of records kept of one capture; what comes after is counted and dropped.
  std::uint64_t max_bytes = 256u << 20;
  // With a FlightRecorder: how far before its start a capture reaches, as far as the rings go, and
  // the level at which programs go on recording afterwards.
  Nanos look_back{0};
  std::uint32_t idle_level = 0;
};

// Programs are told to record a little early, and what lies outside of the guarded window is left
// out. When each program's recording really was switched on and off is read from the clock at that
// moment, never taken from the plan. Record is not to be called twice at once; Probe is safe at any
// time.
class AgentSource final : public session::Source {
 public:
  // `directory` outlives it.
  AgentSource(const Clock& clock, const AgentDirectory& directory, AgentOptions options)
      : clock_(clock), directory_(directory), options_(options) {}

  std::vector<v1::Source> Probe(Nanos timeout) override;
  Nanos lead() const override;
  session::Recording Record(const v1::CapturePlan& plan, const Cancellation& cancel,
                            const Cancellation& terminate,
                            const std::function<void()>& collecting) override;

 private:
  CaptureTimes TimesOf(const v1::CapturePlan& plan) const;
  ProgramWishes WishesOf(const v1::CapturePlan& plan, const CaptureTimes& times) const;
  void RecordUntilEnd(const Cancellation& cancel, const Cancellation& terminate,
                      CaptureTimes& times, ProgramSet& programs, std::uint64_t& budget) const;
  void AwaitDevices(const Cancellation& cancel, ProgramSet& programs, std::uint64_t& budget) const;
  session::Recording Collect(const CaptureTimes& times, bool expects_device,
                             ProgramSet& programs) const;

  const Clock& clock_;
  const AgentDirectory& directory_;
  const AgentOptions options_;
};

}  // namespace strobe
