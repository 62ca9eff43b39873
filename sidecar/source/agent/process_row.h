// Judges the recording of one program. Pure: takes the observations and returns the program's row.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sidecar/source/device/device_verdict.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::source {

// The times of a capture in ns of CLOCK_MONOTONIC, because the wall clock may be set meanwhile.
struct CaptureTimes {
  std::int64_t start_ns = 0, stop_ns = 0;   // The recording, including the guard.
  std::int64_t instant_ns = 0, end_ns = 0;  // The window, which must be covered.
  // Wall clock minus monotonic clock when the recording began.
  std::int64_t wall_minus_monotonic_ns = 0;

  std::int64_t Wall(std::int64_t monotonic_ns) const {
    return monotonic_ns + wall_minus_monotonic_ns;
  }
};

// The observations of one program. Times are as in CaptureTimes; 0 means that it did not happen.
struct ProgramFacts {
  std::string label{};
  std::int64_t born_ns = 0;
  std::int64_t on_ns = 0;    // A time when its annotations were on; the earliest known.
  std::int64_t off_ns = 0;   // A time when its annotations were still on; the latest known.
  bool lives = true;         // True if it runs at the end of the capture.
  std::int64_t seen_ns = 0;  // The last time when it was known to run.
  std::int64_t gone_ns = 0;  // The first time when it was known to have ended.
  // True if it ended before the capture, but the capture reaches back to its last records.
  // last_record_ns is then the end of the newest one.
  bool ended_before = false;
  std::int64_t last_record_ns = 0;
  bool ended_cleanly = false;
  std::int64_t ended_ns = 0;   // The time of its exit handlers.
  bool parent_lives = false;   // The program it was forked from still runs.
  bool replaced = false;       // A younger program has the same process ID: it called exec.
  bool ever_recorded = false;  // It has recorded something at any time.
  bool rings_damaged = false;  // The positions of a ring are invalid.
  bool file_damaged = false;   // Pages of its file were lost.
  std::uint64_t kept = 0, lost = 0;
  std::uint64_t tick_jump_ns = 0;               // See TickTimeline.
  std::uint64_t cut = 0;                        // Annotations of which a part of the text was cut.
  std::uint64_t collectives_without_entry = 0;  // See CollectiveActivity.
  DeviceStatus device{};
  // The time range of the device records.
  std::optional<std::int64_t> device_began_ns{}, device_ended_ns{};
  std::int64_t cuda_since_ns = 0;
};

struct ProcessVerdict {
  v1::ProcessReport row{};
  // Notes for the trace itself, which explain missing events.
  std::vector<std::string> errors{}, warnings{};
  // It ran during the window, or may have, and was never switched on.
  bool unrecorded = false;
};

// `expects_device` means that the worker has an accelerator, so the trace must have a device plane.
ProcessVerdict JudgeProgram(const ProgramFacts& facts, const CaptureTimes& times,
                            bool expects_device);

// The row of a process that could not be recorded at all.
v1::ProcessReport MissingProcess(std::string name, Outcome outcome, std::string message);

}  // namespace strobe::source
