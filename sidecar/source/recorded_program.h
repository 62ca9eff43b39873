// One process with the agent, while it is recorded: its ring file's control words, and what has
// been read out of its rings so far.
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
#include "collector/xplane/builder.h"
#include "common/base/clock.h"
#include "sidecar/source/device_activity.h"
#include "sidecar/source/device_planes.h"
#include "sidecar/source/process_row.h"
#include "sidecar/source/ring_files.h"

namespace strobe {

// Where the trace begins and ends, CLOCK_MONOTONIC in ns. Its lines count from the start.
struct TraceSpan {
  std::int64_t start_ns = 0, stop_ns = 0;
  std::int64_t recording_ns = 0;  // When recording began; later than start_ns when it reaches back.
};

class RecordedProgram {
 public:
  // What of the rings belongs to the capture.
  enum class From {
    kNow,     // What comes from here on.
    kStart,   // All: the program is younger than the capture.
    kOldest,  // And what the rings still hold of before.
  };
  // Annotations up to `level` are kept; 0 = none. The caller holds the file's lease.
  RecordedProgram(GuardedRings rings, From from, std::uint32_t level);
  RecordedProgram(const RecordedProgram&) = delete;
  RecordedProgram& operator=(const RecordedProgram&) = delete;

  // Switches annotations on, for masks that meet the filter. A program that its orders or its
  // parent switched on has been on since it began.
  void SwitchOn(std::uint32_t filter);
  // Notes whether annotations are still switched on; drains call it too.
  void CheckOn();
  // Ends what SwitchOn and ArmDevice began.
  void SwitchOff();
  // Asks for the devices' records, at most for so long, but for devices of the process that listens
  // on one of the ports.
  void ArmDevice(Nanos most, const std::array<std::uint64_t, 2>& framework_ports);
  // Whose lease this is, for what other sidecars say.
  void TellRecorder(std::string_view recorder);
  // Asks the program to attend the capture until then; see FileHeader.
  void AskAttendance(std::uint64_t until_ns);
  // Is there nothing more to wait for? True as well for a program that is gone, or that has no
  // CUDA.
  bool DeviceSettled() const;

  // Looks whether the program runs.
  bool Lives();
  // False for a program that was gone before the capture, whose forked children still look at it.
  bool lived() const { return lived_; }
  // Reads what is left of a program that is gone and lets go of its file, which is removed unless a
  // forked child looks at it.
  void Settle(bool parent_lives, wire::RecordBuffer& buffer, std::uint64_t& budget);
  bool settled() const { return settled_.has_value(); }
  std::uint32_t pid() const { return pid_; }
  std::uint64_t born_ns() const { return born_ns_; }
  // See FileHeader::process_began.
  std::uint32_t process_began() const { return process_began_; }
  // Name of the ring file of the program that it was forked from; empty when there is none.
  const std::string& forked_from() const { return forked_from_; }
  // "<program> <pid>".
  const std::string& label() const { return label_; }

  // What was seen of it; `replaced` is left to whoever knows the other programs, and parent_lives
  // too while it is not settled.
  ProgramFacts Facts();
  // How much of the time before recording began is there, in ns, when a ring has lost a part of it.
  std::optional<std::int64_t> KeptOnly(const TraceSpan& span) const;
  // By how much CUPTI's clock was set meanwhile; 0 = it was not.
  std::uint64_t DeviceClockJumpNs() const;

  // Reads what has come. `budget` is how many bytes may be kept in all; what does not fit is
  // counted.
  void Drain(wire::RecordBuffer& buffer, std::uint64_t& budget);
  std::uint64_t kept() const { return kept_; }
  std::uint64_t lost() const;
  // After the last drain: records that the program made and that never came are lost.
  void CountUnseen();

  // Adds a line per thread to the host's plane, and the devices' planes. `label` as in DeviceTrace.
  void Build(const TraceSpan& span, const std::string& label, xplane::PlaneBuilder& host,
             DevicePlanes& devices) const;

 private:
  struct Event {
    std::uint64_t begin = 0, end = 0;  // Ticks.
    std::size_t text = 0;              // Where in the thread's text,
    std::size_t size = 0;              // and how long.
  };
  struct Thread {
    std::string name;
    std::vector<Event> events;
    std::string text;
  };

  wire::FileHeader& header() const { return *file_.header(); }
  DeviceStatus device_status() const;
  void OpenReaders(From from);
  void DrainDevice(wire::RecordBuffer& buffer, std::uint64_t& budget);
  double NsPerTick() const;
  TickScale Scale(const TraceSpan& span) const;
  std::int64_t MonotonicOf(std::uint64_t ticks) const;
  DeviceClock Clock() const { return DeviceClock(device_.clocks); }
  std::uint64_t WithoutRing() const;

  GuardedRings rings_;
  wire::RingFile& file_ = rings_.file;
  const wire::TickKind kind_;
  const wire::TickMoment begin_;  // With CLOCK_MONOTONIC.
  // Copies: the program might change them.
  const std::uint32_t pid_;
  const std::uint64_t born_ns_;
  const std::uint32_t process_began_;
  const std::string label_, forked_from_;
  const bool on_since_birth_;
  const bool lived_;
  const std::uint32_t level_;
  const From from_;
  std::int64_t on_ns_ = 0, off_ns_ = 0, seen_ns_ = 0;
  bool on_ = false, attended_ = false;
  bool wrapped_ = false;  // A ring had overwritten some of what was before.
  std::vector<wire::RingReader> readers_;
  std::vector<std::uint64_t> made_at_off_;  // By reader: records made when it was switched off.
  std::map<std::uint32_t, Thread> threads_;
  std::optional<ProgramFacts> settled_;  // The last facts; the file is gone.
  std::uint64_t kept_ = 0, over_budget_ = 0, unseen_ = 0;
  const std::uint64_t without_ring_before_;
  std::uint64_t dropped_before_ = 0;
  std::uint32_t wish_ = 0;
  std::uint64_t device_lost_before_ = 0, device_buffers_lost_before_ = 0;
  std::optional<wire::RingReader> device_reader_;
  std::uint64_t last_device_ticks_ = 0;
  DeviceActivity device_;
};

}  // namespace strobe
