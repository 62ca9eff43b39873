// One process with the agent, while it is recorded: its ring file's control words, and what has
// been read out of its rings so far.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "collector/base/clock.h"
#include "collector/xplane/builder.h"
#include "sidecar/source/device_activity.h"
#include "sidecar/source/device_planes.h"
#include "sidecar/source/device_verdict.h"
#include "sidecar/wire/ring_file.h"
#include "sidecar/wire/ring_reader.h"
#include "sidecar/wire/ticks.h"

namespace strobe {

// Where the trace begins and ends, on the wall clock. Its lines count from the start.
struct TraceWindow {
  std::int64_t start_ns = 0, stop_ns = 0;
  std::int64_t recording_ns = 0;  // When recording began; later than start_ns when it reaches back.
  std::int64_t wall_minus_monotonic_ns = 0;
};

class RecordedProgram {
 public:
  // What of the rings belongs to the capture.
  enum class From {
    kNow,     // What comes from here on.
    kStart,   // All: the program is younger than the capture.
    kOldest,  // And what the rings still hold of before.
  };
  RecordedProgram(wire::RingFile file, From from);

  // Annotations up to this level whose mask meets the filter; 0 = none.
  void SetLevel(std::uint32_t level, std::uint32_t filter);
  // Asks for the devices' records, at most for so long, and for their end. The program answers in
  // its own time.
  void ArmDevice(Nanos most);
  void DisarmDevice();
  // Is there nothing more to wait for? True as well for a program that is gone, or that has no
  // CUDA.
  bool DeviceSettled() const;

  bool lives() const { return file_.ProgramLives(); }
  bool uses_cuda() const { return file_.header()->uses_cuda.load(std::memory_order_relaxed) != 0; }
  DeviceStatus device_status() const;
  // When the devices' records begin, in ns after recording began; nothing when they were not
  // recorded.
  std::optional<std::int64_t> DeviceBegan(const TraceWindow& window) const;
  // How much of the time before recording began is there, in ns, when a ring has lost a part of it.
  std::optional<std::int64_t> KeptOnly(const TraceWindow& window) const;
  // By how much CUPTI's clock was set meanwhile; 0 = it was not.
  std::uint64_t DeviceClockJumpNs() const;

  // Reads what has come. `budget` is how many bytes may be kept in all; what does not fit is
  // counted.
  void Drain(std::uint64_t& budget);
  // Records kept, and records that are missing.
  std::uint64_t kept() const { return kept_; }
  std::uint64_t lost() const;

  // "<program> <pid>".
  std::string Label() const;
  // Adds a line per thread to the host's plane, and the devices' planes. `label` as in DeviceTrace.
  void Build(const TraceWindow& window, const std::string& label, xplane::PlaneBuilder& host,
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

  void DrainDevice(std::uint64_t& budget);
  TickScale Scale(const TraceWindow& window) const;
  DeviceClock Clock() const { return DeviceClock(device_.clocks); }

  wire::RingFile file_;
  const wire::TickKind kind_;
  const wire::TickMoment begin_;  // With CLOCK_MONOTONIC.
  From from_;
  bool wrapped_ = false;  // A ring had overwritten some of what was before.
  std::vector<wire::RingReader> readers_;
  std::map<std::uint32_t, Thread> threads_;
  std::uint64_t kept_ = 0, over_budget_ = 0;
  const std::uint64_t without_ring_before_;
  std::uint32_t wish_ = 0;
  std::uint64_t device_lost_before_ = 0;
  std::optional<wire::RingReader> device_reader_;
  DeviceActivity device_;
};

}  // namespace strobe
