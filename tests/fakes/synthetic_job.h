// Simulates a data-parallel job, event by event, and writes what its workers' traces would say as
// digests. Some workers can be slowed. Nothing here is shared with the analysis.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "collector/trace/digest/digest.h"
#include "collector/trace/report/operations.h"

namespace strobe {

struct SlowedWorker {
  std::size_t worker = 0;
  report::Cause cause = report::Cause::kCompute;  // Compute, input, host or copies.
  double ms = 0;                                  // Added to a step.
  double probability = 1;                         // That a step is slowed.
};

struct SyntheticJob {
  std::uint64_t seed = 1;
  std::size_t workers = 64, steps = 20, collectives = 4;  // Collectives of a step.
  std::vector<SlowedWorker> slowed{};
  // Half-widths of the clocks' errors are between these; the measured offsets are wrong by as much.
  double smallest_clock_error_ms = 0.02, largest_clock_error_ms = 2;
};

// A step of a worker takes about this without waiting, of which each phase is a part.
inline constexpr double kComputeMs = 70, kInputMs = 6, kHostMs = 5, kCopiesMs = 5;
inline constexpr double kTransferMs = 2;  // What each collective takes.
// Standard deviation of a worker's own time from step to step, with its heavy tail: each phase
// varies by 1.5 %, and one step of a hundred is longer by 5 ms in the mean.
inline constexpr double kStepNoiseMs = 1.3;

struct SimulatedJob {
  std::vector<digest::Digest> digests{};
  // Mean duration of the recorded steps, and what it would have been if nobody had been slowed.
  double step_ms = 0, step_ms_without_slowed = 0;
};

SimulatedJob Simulate(const SyntheticJob& job);

}  // namespace strobe
