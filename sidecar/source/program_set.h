// The programs of a worker that one capture records through the agent.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "sidecar/source/agent_directory.h"
#include "sidecar/source/process_row.h"
#include "sidecar/source/recorded_program.h"

namespace strobe {

// What is wanted of each program.
struct ProgramWishes {
  std::string recorder{};   // Who records, for the words that another sidecar says.
  std::string container{};  // Programs of this container alone; empty = of all.
  std::uint32_t level = 0, filter = ~0u;
  std::uint32_t idle_level = 0;  // Of the flight recorder, which goes on.
  bool devices = false;
  bool look_back = false;  // What the rings still hold of before belongs to the capture.
  std::array<std::uint64_t, 2> framework_ports{};
  std::uint64_t attend_until_ns = 0;  // CLOCK_MONOTONIC.
};

class ProgramSet {
 public:
  // `directory` outlives it.
  ProgramSet(const AgentDirectory& directory, ProgramWishes wishes)
      : directory_(directory), wishes_(std::move(wishes)) {}
  ~ProgramSet();  // Switches off what is still on.
  ProgramSet(const ProgramSet&) = delete;
  ProgramSet& operator=(const ProgramSet&) = delete;

  // Looks for programs: at the beginning, and for younger ones every now and then, which may have
  // ended already. `device_time`: how long devices may be armed from now on.
  void Find(Nanos device_time);
  // Switches annotations on, for programs that begin later too.
  void SwitchOn();
  // Looks for programs a last time, and switches all off.
  void SwitchOff();
  void Drain(std::uint64_t& budget);
  // Lets go of programs that are gone; their records stay.
  void Settle(std::uint64_t& budget);
  // After the last drain: records that were made and never came are lost.
  void CountUnseen();
  // Have all handed over what their devices did?
  bool DevicesSettled() const;

  // The programs that were there to be recorded.
  std::vector<RecordedProgram*> Counted() const;
  // What was seen of each, in the order of programs(); nothing of those that were gone before.
  std::vector<ProgramFacts> Facts() const;
  // Processes that cannot be recorded: held by another sidecar, of another version, or without a
  // ring file. Known after the first Find.
  std::vector<v1::ProcessReport> Missing() const;
  const std::string& container() const { return wishes_.container; }

 private:
  void Consider(const std::string& path, Nanos device_time);
  bool ForkedFromOurs(const wire::RingFile& file) const;
  bool ParentLives(const RecordedProgram& program) const;
  void OrderNewborn(bool on) const;
  std::string HeldBy(const wire::RingFile& file) const;

  const AgentDirectory& directory_;
  const ProgramWishes wishes_;
  bool first_ = true, on_ = false;
  std::map<std::string, std::unique_ptr<RecordedProgram>> programs_;  // By path.
  std::map<std::string, v1::ProcessReport> missing_;                  // By path.
  std::uint64_t device_until_ns_ = 0, began_ns_ = 0;
  wire::RecordBuffer buffer_{};
};

}  // namespace strobe
