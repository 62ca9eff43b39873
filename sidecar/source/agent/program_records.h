// The records of one program, as they are read from its ring file: its annotations
// (recorded_scopes.h), its devices (recorded_devices.h) and its collectives
// (recorded_collectives.h), on one clock.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "agent/wire/ring_reader.h"
#include "agent/wire/ticks.h"
#include "collector/trace/xplane/builder.h"
#include "common/base/clock.h"
#include "sidecar/source/agent/process_row.h"
#include "sidecar/source/agent/recorded_collectives.h"
#include "sidecar/source/agent/recorded_devices.h"
#include "sidecar/source/agent/recorded_scopes.h"
#include "sidecar/source/base/tick_timeline.h"
#include "sidecar/source/device/device_planes.h"

namespace strobe::source {

// The time range of the trace in ns of CLOCK_MONOTONIC. Its lines count from the start.
struct TraceSpan {
  std::int64_t start_ns = 0, stop_ns = 0;
  // The time when recording began. It is later than start_ns if the capture reaches back.
  std::int64_t recording_ns = 0;
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

class ProgramRecords {
 public:
  using StepTimes = RecordedScopes::StepTimes;
  // Keeps annotations up to `level`; 0 keeps none. The caller holds the file's lease, and keeps the
  // file open until Close.
  ProgramRecords(const wire::RingFile& file, RecordsFrom from, std::uint32_t level);
  ProgramRecords(const ProgramRecords&) = delete;
  ProgramRecords& operator=(const ProgramRecords&) = delete;

  // When reading began (CLOCK_MONOTONIC).
  std::uint64_t begin_ns() const { return clock_.begin_ns(); }
  RecordedDevices& devices() { return devices_; }

  // For the following, until Close, the file must be open.

  // Requests device records; see RecordedDevices::Request. `most` limits how long the devices may
  // stay armed, `since_ns` is the begin of the trace, and `mode` is FileHeader::device_mode.
  void ArmDevice(Nanos most, const FrameworkPorts& framework_ports, std::int64_t since_ns,
                 std::uint32_t mode);
  // See RecordedDevices::Settled.
  bool DeviceSettled(bool lives) const { return devices_.Settled(lives); }
  // Notes how many annotations there are now, just before they are switched off.
  void NoteEnd() { scopes_.NoteEnd(); }
  // Withdraws all requests. The caller wakes the program.
  void Disarm();
  // Reads new records. `budget` is the number of bytes that may still be kept; records beyond it
  // are counted. `is_on`: the program annotates for this capture. Returns how full the fullest ring
  // was, from 0 to 1.
  double Drain(bool is_on, wire::RecordBuffer& buffer, std::uint64_t& budget);
  // Call it after the last Drain: counts records that were written but never arrived as lost.
  // `lives` tells that the program runs.
  void CountUnseen(bool lives) { scopes_.CountUnseen(lives); }
  // Fills in what the records tell.
  void AddTo(ProgramFacts& facts) const;
  // Closes the rings; what was read stays.
  void Close();

  std::uint64_t kept() const { return scopes_.kept() + devices_.kept(); }
  // If a ring has lost a part of the time before recording began: how much of it is left, in ns.
  std::optional<std::int64_t> KeptOnly(const TraceSpan& span) const;
  // For how much of the time before recording began the program's annotations are there, in ns, if
  // it records since `since_ns`. None if it is younger than the capture.
  std::optional<std::int64_t> ReachedBack(const TraceSpan& span, std::int64_t since_ns) const;
  // Like ReachedBack, for its devices. None if they were not recorded, or the program had ended
  // before.
  std::optional<std::int64_t> DevicesReachedBack(const TraceSpan& span) const;
  // The largest step of CUPTI's clock during the capture; 0 if there was none.
  std::uint64_t DeviceClockJumpNs() const;
  // The begin of the first and the end of the last recorded step of the loop with a number from
  // `first` to `last`, in ns of CLOCK_MONOTONIC. None if there is no such step.
  std::optional<StepTimes> TimesOfSteps(std::string_view loop, std::int64_t first,
                                        std::int64_t last, const TraceSpan& span) const;
  // Adds a line per thread to the host plane, and the device planes. For `label`, see DeviceTrace.
  void Build(const TraceSpan& span, const std::string& label, xplane::PlaneBuilder& host,
             DevicePlanes& devices) const;

 private:
  std::int64_t LastRecordNs() const;

  const RecordsFrom from_;
  ProgramClock clock_;
  RecordedScopes scopes_;
  RecordedDevices devices_;
  RecordedCollectives collectives_;
};

}  // namespace strobe::source
