// Records through the agent inside a worker's programs: annotations, and the activity of their
// GPUs.
#pragma once
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "sidecar/capture/ports.h"
#include "sidecar/source/agent/agent_directory.h"
#include "sidecar/source/agent/program_set.h"
#include "sidecar/source/base/announcements.h"

namespace strobe::source {

struct AgentOptions {
  // The limit on records kept per capture, in bytes. Further records are counted and dropped.
  std::uint64_t max_bytes = 256u << 20;
  // With a FlightRecorder: how far before its start a capture reaches if its plan does not say it,
  // as far as the rings go back, and the level at which programs continue to record afterwards.
  Nanos look_back{0};
  std::uint32_t idle_level = 0;
  bool idle_devices = false;  // The flight recorder keeps GPUs recorded too.
};

// Programs start recording slightly early, and events outside of the guarded window are left out.
// The times at which a program was really switched on and off are read from the clock, not taken
// from the plan. Record must not be called concurrently; Probe may be called at any time.
class AgentSource final : public session::Source {
 public:
  // `clock` and `directory` must outlive this object. With a FlightRecorder, programs record from
  // now on.
  AgentSource(const Clock& clock, const AgentDirectory& directory, AgentOptions options);

  std::vector<v1::Source> Probe(Nanos timeout) override;
  Nanos lead() const override;
  std::vector<v1::StepPace> Steps() override;
  std::vector<session::Recording> Record(const v1::CapturePlan& plan, const Cancellation& cancel,
                                         const Cancellation& terminate,
                                         const std::function<void()>& collecting) override;

 private:
  std::vector<Announcement> Announced() const;
  // How far the capture is to reach back, and whether programs recorded before it.
  Nanos LookBack(const v1::CapturePlan& plan) const;
  bool recorded_before() const { return options_.idle_level > 0; }
  CaptureTimes TimesOf(const v1::CapturePlan& plan) const;
  ProgramWishes WishesOf(const v1::CapturePlan& plan, const CaptureTimes& times) const;
  // Returns whether programs told steps of the plan's loop.
  bool RecordUntilEnd(const v1::CapturePlan& plan, const Cancellation& cancel,
                      const Cancellation& terminate, CaptureTimes& times, ProgramSet& programs,
                      std::uint64_t& budget) const;
  void CutToSteps(const v1::CapturePlan& plan, const ProgramSet& programs,
                  CaptureTimes& times) const;
  void AwaitDevices(const Cancellation& cancel, ProgramSet& programs, std::uint64_t& budget) const;
  // What was recorded, by local rank.
  std::vector<session::Recording> Collect(const v1::CapturePlan& plan, const CaptureTimes& times,
                                          ProgramSet& programs) const;
  // The programs of one trace.
  struct RankPrograms {
    std::vector<std::pair<RecordedProgram*, const ProgramFacts*>> programs{};
    std::vector<v1::ProcessReport> missing{};
  };
  session::Recording CollectRank(const v1::CapturePlan& plan, const CaptureTimes& times,
                                 RankPrograms of_rank) const;

  const Clock& clock_;
  const AgentDirectory& directory_;
  const AgentOptions options_;
  const std::int64_t began_ns_;  // CLOCK_MONOTONIC.
};

}  // namespace strobe::source
