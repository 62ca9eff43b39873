// The time that steps would take if some workers worked like the median of the others.
#pragma once
#include <cstddef>
#include <cstdint>
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
// workers that are not changed: those of its stage or, with `across_stages`, of all stages. Where
// there is none, they keep their own.
MedianTimes ReplayWithMedians(const Job& job, Replays& replays,
                              std::span<const std::int32_t> group_of, std::size_t groups,
                              bool across_stages);

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

}  // namespace strobe::report
