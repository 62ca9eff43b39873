// How long workers waited for others in each step: a picture of workers by steps. Pure.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "collector/trace/report/arrivals.h"
#include "collector/trace/report/operations.h"

namespace strobe::report {

// The wait of one worker in one step.
struct StepWait {
  std::int64_t waited_ns = 0;
  // By how much the clocks of the worker and of those who arrived last can change it. nullopt: one
  // of them is not measured.
  std::optional<std::int64_t> error_ns = 0;
};

struct WaitMap {
  // Numbers in Job::workers: who made others wait longest and who waited longest, by rank.
  std::vector<std::uint32_t> workers{};
  // Numbers in Job::steps: the steps in which workers waited longest, in ascending order.
  std::vector<std::uint32_t> steps{};
  // By worker and step; nullopt: the worker did not take part in the step, or is on no common
  // clock.
  std::vector<std::vector<std::optional<StepWait>>> waits{};
  std::size_t workers_left_out = 0, steps_left_out = 0;
};
inline constexpr std::size_t kMaxMapWorkers = 64, kMaxMapSteps = 128;

// `arrivals`: those of the job.
WaitMap ComputeWaitMap(const Job& job, const Arrivals& arrivals);

}  // namespace strobe::report
