// Simulates a run of a data-parallel job with operations, and writes what its workers' traces would
// say as digests. Two runs of one job differ as real ones do: by their machines, by noise from step
// to step that resembles that of the step before, by a drift, by long steps, and by where in a step
// the recording begins. Nothing here is shared with the analysis.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "collector/trace/digest/digest.h"

namespace strobe {

struct SyntheticRun {
  std::uint64_t seed = 1;
  std::size_t workers = 8, steps = 20;  // Complete steps that another one follows.
  // Standard deviations, as shares: of all work of a kind from step to step, on all workers alike;
  // of one worker's; of one machine's speed; of an operation's from run to run; of the drift from
  // the first to the last step.
  double step_noise = 0.01, worker_noise = 0.01, speed = 0.003, run_shift = 0.003, drift = 0.005;
  double resemblance = 0.4;  // The correlation of a step's noise with that of the next one.
  double long_steps = 0.02;  // The share of steps that are longer by 10 ms in the mean.
  std::map<std::string, double> factors{};  // By which an operation takes longer.
  std::map<std::string, double> added{};    // Operations that only this run has, in ms of a step.
  double input_ms = 6, host_ms = 5;
};

// What a step takes in the mean without noise.
inline constexpr double kSyntheticStepMs = 94;

std::vector<digest::Digest> SimulateRun(const SyntheticRun& run);

}  // namespace strobe
