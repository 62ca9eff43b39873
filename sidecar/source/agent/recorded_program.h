// One program with the agent while it is recorded: its ring file's control words, and the records
// read from its rings.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/wire/ring_reader.h"
#include "agent/wire/ticks.h"
#include "collector/trace/xplane/builder.h"
#include "common/base/clock.h"
#include "sidecar/source/agent/process_row.h"
#include "sidecar/source/agent/recorded_devices.h"
#include "sidecar/source/agent/ring_files.h"
#include "sidecar/source/base/process_ranks.h"
#include "sidecar/source/base/reported_steps.h"
#include "sidecar/source/base/tick_timeline.h"
#include "sidecar/source/device/device_planes.h"

namespace strobe {

// The time range of the trace in ns of CLOCK_MONOTONIC. Its lines count from the start.
struct TraceSpan {
  std::int64_t start_ns = 0, stop_ns = 0;
  // The time when recording began. It is later than start_ns if the capture reaches back.
  std::int64_t recording_ns = 0;
};

class RecordedProgram {
 public:
  // The part of the rings that belongs to the capture.
  enum class From {
    kNow,     // Records from now on.
    kStart,   // All records, because the program is younger than the capture.
    kOldest,  // All records that the rings still hold, including earlier ones.
    kEnded,   // Like kOldest, of a program that ended before the capture.
  };
  // Keeps annotations up to `level`; 0 keeps none. The caller must hold the file's lease.
  RecordedProgram(GuardedRings rings, From from, std::uint32_t level);
  RecordedProgram(const RecordedProgram&) = delete;
  RecordedProgram& operator=(const RecordedProgram&) = delete;

  // Switches annotations on for masks that have a bit in common with the filter. A program that its
  // orders or its parent switched on counts as on since its start.
  void SwitchOn(std::uint32_t filter);
  // Checks whether annotations are still on. Drain calls it too.
  void CheckOn();
  // Undoes SwitchOn and ArmDevice.
  void SwitchOff();
  // Requests device records; see RecordedDevices::Request. `most` limits how long the devices may
  // stay armed, and `since_ns` is the begin of the trace.
  void ArmDevice(Nanos most, const FrameworkPorts& framework_ports, std::int64_t since_ns);
  void LeaveDeviceToFramework() const { devices_.LeaveToFramework(); }
  // Reads the device records that a program which ended before the capture has left.
  void ReadLeftDevice(std::int64_t since_ns) { devices_.ReadLeft(since_ns); }
  // Writes the holder of the lease, which other sidecars show in their messages.
  void TellRecorder(std::string_view recorder);
  // Requests the attendance thread until `until_ns`; see FileHeader::attend_until.
  void AskAttendance(std::uint64_t until_ns);
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
  std::uint32_t pid() const { return pid_; }
  std::uint64_t born_ns() const { return born_ns_; }
  // See FileHeader::process_began.
  std::uint32_t process_began() const { return process_began_; }
  // The name of the ring file of the program that this one was forked from. Empty if there is none.
  const std::string& forked_from() const { return forked_from_; }
  // "<program> <pid>".
  const std::string& label() const { return label_; }
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
  std::uint64_t kept() const { return kept_ + devices_.kept(); }
  std::uint64_t lost() const;
  // Call it after the last Drain: counts records that were written but never arrived as lost.
  void CountUnseen();

  // Adds the loops whose steps the program tells; see AddReportedSteps.
  void AddSteps(std::int64_t wall_minus_monotonic_ns, std::vector<v1::StepPace>& told) const;
  // Notes whether the program tells steps of the loop now.
  void NoteCounting(std::string_view loop) {
    counts_steps_ = !settled_ && !ended_before() && TellsSteps(header().step_loops, loop);
  }
  bool counts_steps() const { return counts_steps_; }
  // The begin of the first and the end of the last recorded step of the loop with a number from
  // `first` to `last`, in ns of CLOCK_MONOTONIC. None if there is no such step.
  struct StepTimes {
    std::int64_t begin_ns = 0, end_ns = 0;
  };
  std::optional<StepTimes> TimesOfSteps(std::string_view loop, std::int64_t first,
                                        std::int64_t last, const TraceSpan& span) const;

  // Adds a line per thread to the host plane, and the device planes. For `label`, see DeviceTrace.
  void Build(const TraceSpan& span, const std::string& label, xplane::PlaneBuilder& host,
             DevicePlanes& devices) const;

 private:
  struct Event {
    std::uint64_t begin = 0, end = 0;  // Ticks.
    std::size_t text = 0;              // Offset in the thread's text.
    std::size_t size = 0;              // Size of the text in bytes.
  };
  struct Thread {
    std::string name;
    std::vector<Event> events;
    std::string text;
  };

  bool ended_before() const { return from_ == From::kEnded; }
  std::int64_t LastRecordNs() const;
  wire::FileHeader& header() const { return *file_.header(); }
  void OpenReaders(From from);
  // What is known of the ticks now.
  TickTimeline Timeline() const;
  TickScale Scale(const TraceSpan& span) const;
  std::int64_t MonotonicOf(std::uint64_t ticks) const;
  std::uint64_t WithoutRing() const;
  std::uint64_t Cut() const;

  GuardedRings rings_;
  wire::RingFile& file_ = rings_.file;
  const wire::TickKind kind_;
  // Ticks and CLOCK_MONOTONIC when the recording of this program began.
  const wire::TickMoment begin_;
  TickTimeline timeline_{begin_};
  // Copies of the header's values, because the program can change them.
  const std::uint32_t pid_;
  const std::uint64_t born_ns_;
  const std::uint32_t process_began_;
  Rank rank_;  // That of the ring file, unless it was set.
  const std::string label_, forked_from_;
  const bool on_since_birth_;
  const bool lived_;
  const std::uint32_t level_;
  const From from_;
  std::int64_t on_ns_ = 0, off_ns_ = 0, seen_ns_ = 0, gone_ns_ = 0;
  bool on_ = false, attended_ = false, counts_steps_ = false;
  bool wrapped_ = false;  // A ring had overwritten records from before the recording.
  std::vector<wire::RingReader> readers_;
  // Records that each reader's ring had when recording was switched off.
  std::vector<std::uint64_t> made_at_off_;
  std::map<std::uint32_t, Thread> threads_;
  std::optional<ProgramFacts> settled_;  // The last observations, after the file was closed.
  std::uint64_t kept_ = 0, over_budget_ = 0, unseen_ = 0;
  const std::uint64_t without_ring_before_;
  std::uint64_t dropped_before_ = 0, cut_before_ = 0;
  RecordedDevices devices_{file_};
};

}  // namespace strobe
