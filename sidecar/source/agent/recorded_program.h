// One program with the agent while it is recorded: its switch (program_switch.h), its annotations
// (recorded_scopes.h), its devices (recorded_devices.h) and its collectives
// (recorded_collectives.h), on one clock.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/wire/ring_reader.h"
#include "agent/wire/ticks.h"
#include "collector/trace/xplane/builder.h"
#include "common/base/clock.h"
#include "sidecar/source/agent/process_row.h"
#include "sidecar/source/agent/program_switch.h"
#include "sidecar/source/agent/recorded_collectives.h"
#include "sidecar/source/agent/recorded_devices.h"
#include "sidecar/source/agent/recorded_scopes.h"
#include "sidecar/source/agent/ring_files.h"
#include "sidecar/source/base/process_ranks.h"
#include "sidecar/source/base/reported_steps.h"
#include "sidecar/source/base/tick_timeline.h"
#include "sidecar/source/device/device_planes.h"

namespace strobe::source {

// The time range of the trace in ns of CLOCK_MONOTONIC. Its lines count from the start.
struct TraceSpan {
  std::int64_t start_ns = 0, stop_ns = 0;
  // The time when recording began. It is later than start_ns if the capture reaches back.
  std::int64_t recording_ns = 0;
};

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

// A program's ticks, compared with CLOCK_MONOTONIC since the recording of the program began.
class ProgramClock {
 public:
  explicit ProgramClock(wire::TickKind kind)
      : kind_(kind), begin_(wire::MonotonicMoment(kind)), timeline_(begin_) {}

  std::uint64_t begin_ns() const { return begin_.other_ns; }
  void Note() { timeline_.Note(wire::MonotonicMoment(kind_)); }
  // What is known of the ticks now.
  TickTimeline Timeline() const {
    TickTimeline timeline = timeline_;
    timeline.Note(wire::MonotonicMoment(kind_));
    return timeline;
  }
  TickScale Scale(std::int64_t start_ns) const { return Timeline().Scale(start_ns); }
  // At most a day before or after the begin, because ticks may be forged.
  std::int64_t MonotonicOf(std::uint64_t ticks) const;

 private:
  const wire::TickKind kind_;
  const wire::TickMoment begin_;
  TickTimeline timeline_;
};

class RecordedProgram {
 public:
  using From = RecordsFrom;
  using StepTimes = RecordedScopes::StepTimes;
  // Keeps annotations up to `level`; 0 keeps none. The caller must hold the file's lease.
  RecordedProgram(GuardedRings rings, From from, std::uint32_t level);
  RecordedProgram(const RecordedProgram&) = delete;
  RecordedProgram& operator=(const RecordedProgram&) = delete;

  // Switches annotations on for masks that have a bit in common with the filter. A program that its
  // orders or its parent switched on counts as on since its start.
  void SwitchOn(std::uint32_t filter);
  // Undoes SwitchOn and ArmDevice.
  void SwitchOff();
  // Requests device records; see RecordedDevices::Request. `most` limits how long the devices may
  // stay armed, `since_ns` is the begin of the trace, and `mode` is FileHeader::device_mode.
  void ArmDevice(Nanos most, const FrameworkPorts& framework_ports, std::int64_t since_ns,
                 std::uint32_t mode);
  // For what concerns only one of these. The file must be open.
  RecordedDevices& devices() { return devices_; }
  ProgramSwitch& control() { return switch_; }
  // True if no more device records are expected, also for a program that has ended or does not use
  // CUDA.
  bool DeviceSettled() const { return settled_ || devices_.Settled(file_.ProgramLives()); }

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
  // If a ring has lost a part of the time before recording began: how much of it is left, in ns.
  std::optional<std::int64_t> KeptOnly(const TraceSpan& span) const;
  // For how much of the time before recording began the program's annotations are there, in ns, if
  // it records since `since_ns` or its own start. None if it is younger than the capture.
  std::optional<std::int64_t> ReachedBack(const TraceSpan& span, std::int64_t since_ns) const;
  // Like ReachedBack, for its devices. None if they were not recorded, or the program had ended
  // before.
  std::optional<std::int64_t> DevicesReachedBack(const TraceSpan& span) const;
  // The largest step of CUPTI's clock during the capture; 0 if there was none.
  std::uint64_t DeviceClockJumpNs() const;

  // Reads new records. `budget` is the number of bytes that may still be kept; records beyond it
  // are counted. Returns how full the fullest ring was, from 0 to 1.
  double Drain(wire::RecordBuffer& buffer, std::uint64_t& budget);
  std::uint64_t kept() const { return scopes_.kept() + devices_.kept(); }
  std::uint64_t lost() const;
  // Call it after the last Drain: counts records that were written but never arrived as lost.
  void CountUnseen();

  // Adds the loops whose steps the program tells; see AddReportedSteps.
  void AddSteps(std::int64_t wall_minus_monotonic_ns, std::vector<v1::StepPace>& told) const;
  // Notes whether the program tells steps of the loop now.
  void NoteCounting(std::string_view loop) {
    counts_steps_ = !settled_ && from_ != From::kEnded && TellsSteps(header().step_loops, loop);
  }
  bool counts_steps() const { return counts_steps_; }
  // The begin of the first and the end of the last recorded step of the loop with a number from
  // `first` to `last`, in ns of CLOCK_MONOTONIC. None if there is no such step.
  std::optional<StepTimes> TimesOfSteps(std::string_view loop, std::int64_t first,
                                        std::int64_t last, const TraceSpan& span) const;

  // Adds a line per thread to the host plane, and the device planes. For `label`, see DeviceTrace.
  void Build(const TraceSpan& span, const std::string& label, xplane::PlaneBuilder& host,
             DevicePlanes& devices) const;

 private:
  std::int64_t LastRecordNs() const;
  wire::FileHeader& header() const { return *file_.header(); }

  GuardedRings rings_;
  wire::RingFile& file_ = rings_.file;
  ProgramClock clock_;
  const ProgramIdentity identity_;
  Rank rank_;  // That of the ring file, unless it was set.
  const bool on_since_birth_;
  const bool lived_;
  const From from_;
  std::int64_t seen_ns_ = 0, gone_ns_ = 0;
  bool counts_steps_ = false;
  std::optional<ProgramFacts> settled_;  // The last observations, after the file was closed.
  ProgramSwitch switch_;
  RecordedScopes scopes_;
  RecordedDevices devices_{file_};
  RecordedCollectives collectives_{file_.path(), from_ != From::kNow};
};

}  // namespace strobe::source
