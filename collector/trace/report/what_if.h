// The time that steps would take if some workers worked like the median of the others, or all
// alike.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "collector/trace/report/operations.h"
#include "collector/trace/report/replays.h"

namespace strobe::report {

inline constexpr std::int32_t kNotChanged = -1;

// Times of the replayed steps, in ns.
struct MedianTimes {
  std::vector<double> replayed{};    // With the recorded durations.
  std::vector<double> all_median{};  // If all changed workers were the median.
  // For each group of workers, if all other groups were the median and it alone was not.
  std::vector<std::vector<double>> only{};
};

// group_of tells of each worker to which group of changed workers it belongs, or kNotChanged. The
// local operations of a changed worker take the median duration of their type in the step, over the
// workers of its stage that are not changed. Where there is none, they keep their own.
MedianTimes ReplayWithMedians(const Job& job, Replays& replays,
                              std::span<const std::int32_t> group_of, std::size_t groups);

// By how much some workers lengthen a step.
struct HeldUp {
  double ns = 0;        // In the mean.
  double error_ns = 0;  // Half-width of its 95 % interval, from the differences of the steps.
  double share = 0;     // The share of the replayed step.
  std::size_t steps = 0;
};
// The difference of two series of MedianTimes.
HeldUp DifferenceOf(const std::vector<double>& longer, const std::vector<double>& shorter,
                    const std::vector<double>& replayed);

// How much slower the job is than one in which all workers are alike: the mean replayed step,
// divided by one in which every operation takes the mean or, for communication, the median of its
// type over all workers and steps. This is S of "Understanding Stragglers in Large Model Training
// Using What-if Analysis" (ByteDance and others, 2025). nullopt if no step could be replayed.
std::optional<double> ComputeSlowdown(const Job& job, Replays& replays);

}  // namespace strobe::report
