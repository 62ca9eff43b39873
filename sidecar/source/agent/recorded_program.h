// One program with the agent while it is recorded: the lease on its ring file, its switch
// (program_switch.h), its records (program_records.h) and its life.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/wire/ring_reader.h"
#include "sidecar/source/agent/process_row.h"
#include "sidecar/source/agent/program_records.h"
#include "sidecar/source/agent/program_switch.h"
#include "sidecar/source/agent/ring_files.h"
#include "sidecar/source/base/process_ranks.h"
#include "sidecar/source/base/reported_steps.h"

namespace strobe::source {

// What does not change of a program: copies of its header's values, because the program can change
// them.
struct ProgramIdentity {
  std::uint32_t pid = 0;
  std::uint64_t born_ns = 0;
  std::uint32_t process_began = 0;  // See FileHeader::process_began.
  std::string label{};              // "<program> <pid>".
  // The name of the ring file of the program that this one was forked from. Empty if there is none.
  std::string forked_from{};
};

class RecordedProgram {
 public:
  using From = RecordsFrom;
  // Keeps annotations up to `level`; 0 keeps none. The caller must hold the file's lease.
  RecordedProgram(GuardedRings rings, From from, std::uint32_t level);
  RecordedProgram(const RecordedProgram&) = delete;
  RecordedProgram& operator=(const RecordedProgram&) = delete;

  // Switches annotations on for masks that have a bit in common with the filter. A program that its
  // orders or its parent switched on counts as on since its start.
  void SwitchOn(std::uint32_t filter);
  // Undoes SwitchOn and what was requested of the devices.
  void SwitchOff();
  // For what concerns only one of these. The switch needs an open file.
  ProgramRecords& records() { return records_; }
  const ProgramRecords& records() const { return records_; }
  ProgramSwitch& control() { return switch_; }
  // True if no more device records are expected, also for a program that has ended or does not use
  // CUDA.
  bool DeviceSettled() const { return settled_ || records_.DeviceSettled(file_.ProgramLives()); }

  // Checks whether the program runs.
  bool Lives();
  // False if the program had ended before the capture, only forked children use its file, and its
  // own records are not wanted.
  bool lived() const { return lived_; }
  // Reads the rest of a program that has ended and closes its file. Removes the file unless a
  // forked child uses it, or `keep` says that others may want it.
  void Settle(bool parent_lives, bool keep, wire::RecordBuffer& buffer, std::uint64_t& budget);
  bool settled() const { return settled_.has_value(); }
  const ProgramIdentity& identity() const { return identity_; }
  const Rank& rank() const { return rank_; }
  void SetRank(const Rank& rank) { rank_ = rank; }

  // The observations of the program. The caller fills in `replaced`, which depends on other
  // programs, and also `parent_lives` while the program is not settled.
  ProgramFacts Facts();
  // Reads new records. `budget` is the number of bytes that may still be kept; records beyond it
  // are counted. Returns how full the fullest ring was, from 0 to 1.
  double Drain(wire::RecordBuffer& buffer, std::uint64_t& budget);
  // Call it after the last Drain: counts records that were written but never arrived as lost.
  void CountUnseen();

  // Adds the loops whose steps the program tells; see AddReportedSteps.
  void AddSteps(std::int64_t wall_minus_monotonic_ns, std::vector<v1::StepPace>& told) const;
  // Notes whether the program tells steps of the loop now.
  void NoteCounting(std::string_view loop) {
    counts_steps_ = !settled_ && !ended_before_ && TellsSteps(header().step_loops, loop);
  }
  bool counts_steps() const { return counts_steps_; }

 private:
  wire::FileHeader& header() const { return *file_.header(); }

  GuardedRings rings_;
  wire::RingFile& file_ = rings_.file;
  ProgramRecords records_;
  const ProgramIdentity identity_;
  Rank rank_;  // That of the ring file, unless it was set.
  const bool on_since_birth_;
  const bool lived_;
  const bool ended_before_;
  std::int64_t seen_ns_ = 0, gone_ns_ = 0;
  bool counts_steps_ = false;
  std::optional<ProgramFacts> settled_;  // The last observations, after the file was closed.
  ProgramSwitch switch_;
};

}  // namespace strobe::source
