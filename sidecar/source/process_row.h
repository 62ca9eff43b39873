// What a program's part of a capture is worth. Pure: what was seen of the program goes in, its row
// of truth comes out.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sidecar/source/device_verdict.h"
#include "strobe/v1/worker.pb.h"

namespace strobe {

// The times of a capture; CLOCK_MONOTONIC in ns, because the wall clock may be set meanwhile.
struct CaptureTimes {
  std::int64_t start_ns = 0, stop_ns = 0;    // Of what is recorded, the guard included.
  std::int64_t instant_ns = 0, end_ns = 0;   // Of the window, which must be covered.
  std::int64_t wall_minus_monotonic_ns = 0;  // As it was when the recording began.

  std::int64_t Wall(std::int64_t monotonic_ns) const {
    return monotonic_ns + wall_minus_monotonic_ns;
  }
};

// What was seen of one program. Times as in CaptureTimes; 0 = it did not happen.
struct ProgramFacts {
  std::string label{};
  std::int64_t born_ns = 0;
  std::int64_t on_ns = 0;    // Its annotations were switched on by then,
  std::int64_t off_ns = 0;   // and were still on then.
  bool lives = true;         // At the end.
  std::int64_t seen_ns = 0;  // When it was last seen to live.
  bool ended_cleanly = false;
  std::int64_t ended_ns = 0;   // When it said that it ended.
  bool parent_lives = false;   // It was forked from a program that still runs.
  bool replaced = false;       // A younger program has its PID: it called exec.
  bool ever_recorded = false;  // It has begun a ring in its life.
  bool rings_damaged = false;  // A ring's positions make no sense.
  bool file_damaged = false;   // Pages of its file are gone.
  std::uint64_t kept = 0, lost = 0;
  DeviceStatus device{};
  // When the devices' records begin and end.
  std::optional<std::int64_t> device_began_ns{}, device_ended_ns{};
  std::int64_t cuda_since_ns = 0;
};

struct ProcessVerdict {
  v1::ProcessReport row{};
  // For the trace itself, where it explains what its events do not show.
  std::vector<std::string> errors{}, warnings{};
};

// `expects_device`: the worker has an accelerator, and its trace must show one.
ProcessVerdict JudgeProgram(const ProgramFacts& facts, const CaptureTimes& times,
                            bool expects_device);

// A process that could not be recorded at all.
v1::ProcessReport MissingProcess(std::string name, Outcome outcome, std::string message);

}  // namespace strobe
