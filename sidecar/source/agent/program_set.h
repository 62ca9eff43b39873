// The set of programs of a worker that one capture records through the agent.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "sidecar/source/agent/agent_directory.h"
#include "sidecar/source/agent/process_row.h"
#include "sidecar/source/agent/recorded_program.h"
#include "sidecar/source/base/announcements.h"
#include "sidecar/source/base/framework_ports.h"
#include "sidecar/source/base/process_ranks.h"

namespace strobe::source {

// The requests to each program.
struct ProgramWishes {
  // The name of this recording, which other sidecars show in their messages.
  std::string recorder{};
  // Only programs of this container are recorded; empty for all.
  std::string container{};
  // Only programs with these ranks are recorded; see IsWanted.
  std::function<bool(const Rank&)> wants = [](const Rank&) { return true; };
  AnnouncedRanks announced_ranks{};  // See PlaceIn.
  std::uint32_t level = 0, filter = ~0u;
  std::uint32_t idle_level = 0;  // The flight recorder's level, which continues.
  bool devices = false;
  std::uint32_t device_mode = 0;  // FileHeader::device_mode.
  // Processes in which Kineto is loaded and leaves the devices to the agent; see LeftToAgent.
  std::set<std::string> beside_kineto{};
  // Processes whose framework records their devices; see Announcement::process.
  std::set<std::string> framework_processes{};
  // Records since this time (CLOCK_MONOTONIC in ns) that the rings still hold belong to the
  // capture. If not set, records from now on.
  std::optional<std::int64_t> look_back_to_ns{};
  // So do the last records of programs that have ended; see AgentDirectory::KeepEnded.
  bool ended_programs = false;
  FrameworkPorts framework_ports{};
  std::uint64_t attend_until_ns = 0;  // CLOCK_MONOTONIC.
};

class ProgramSet {
 public:
  // `directory` must outlive this object.
  ProgramSet(const AgentDirectory& directory, ProgramWishes wishes)
      : directory_(directory), wishes_(std::move(wishes)) {}
  ~ProgramSet();  // Switches all programs off.
  ProgramSet(const ProgramSet&) = delete;
  ProgramSet& operator=(const ProgramSet&) = delete;

  // Looks for programs. The first call finds those that exist, and later calls those that started
  // since, even if they have ended. `device_time` limits how long devices may stay armed from now
  // on.
  void Find(Nanos device_time);
  // Switches annotations on, also for programs that start later.
  void SwitchOn();
  // Looks for programs a last time and switches all off.
  void SwitchOff();
  // Reads new records of all programs. `budget` is the number of bytes that may still be kept.
  // Returns how full the fullest ring was, from 0 to 1.
  double Drain(std::uint64_t& budget);
  // Reads the rest of programs that have ended and closes their files. Their records are kept.
  void Settle(std::uint64_t& budget);
  // Call it after the last Drain: counts records that were written but never arrived as lost.
  void CountUnseen();
  // True if no program has been found yet.
  bool empty() const { return programs_.empty(); }
  // The training steps that the programs tell.
  std::vector<v1::StepPace> Steps(std::int64_t wall_minus_monotonic_ns) const;
  // Notes which programs tell steps of the loop now; see RecordedProgram::counts_steps.
  void NoteCounting(std::string_view loop);
  // True if all programs have delivered their device records.
  bool DevicesSettled() const;

  // The programs that ran during the capture.
  std::vector<RecordedProgram*> Counted() const;
  // The observations of each program in Counted().
  std::vector<ProgramFacts> Facts() const;
  // Processes that cannot be recorded, because another sidecar holds them, they have another
  // version, or they have no ring file. Known after the first Find.
  std::vector<v1::ProcessReport> Missing() const;
  const std::string& container() const { return wishes_.container; }

 private:
  void Consider(const std::string& path, Nanos device_time);
  bool ForkedFromOurs(const wire::RingFile& file) const;
  bool IsNoneOfOurs(const wire::RingFile& file) const;
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

}  // namespace strobe::source
