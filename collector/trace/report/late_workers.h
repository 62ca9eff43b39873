// How much longer each worker works in a step than the others, by their own clocks alone, and which
// workers do so by more than chance explains.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collector/trace/report/operations.h"

namespace strobe::report {

// One worker's own time above the median of the other workers of its stage, in ns, for each step in
// which it and another one of them took part.
struct Excess {
  std::vector<double> total{};
  std::array<std::vector<double>, kCauses> by_cause{};
};

// Returns one for each worker of the job, empty if it cannot be compared with another worker.
std::vector<Excess> ComputeExcess(const Job& job);

// The duration of a step: the median over its workers, each by its own clock, in ns.
double StepDuration(const JobStep& step);

// A cause on which a late worker spends more of its own time than the others.
struct CauseShare {
  Cause cause = Cause::kOther;
  double ns = 0;        // Per step, above the others' median.
  double error_ns = 0;  // Half-width of its 95 % interval.
  double share = 0;     // Its share of all causes that are above the others.
};

struct Late {
  std::uint32_t who = 0;  // In Job::workers.
  double ns = 0;          // Mean own time of a step above the others' median.
  double error_ns = 0;    // Half-width of its 95 % interval.
  double late_ns = 0;     // Like `ns`, for the steps in which it is late.
  std::size_t steps = 0, late_steps = 0;
  // Late in the typical step; otherwise only now and then.
  bool persistent = true;
  // Only causes that take longer than on other workers; the largest first.
  std::vector<CauseShare> causes{};
};

struct LateWorkers {
  std::vector<Late> late{};  // The latest first.
  // The smallest difference in the mean of a step, in ns, that would have been found for a worker
  // with the median noise; 0 = none could be found, with fewer than kMinSteps.
  double smallest_ns = 0;
};

// With fewer steps, a difference cannot be told from chance.
inline constexpr std::size_t kMinSteps = 3;
// A smaller share of a step is not reported, even if it is certain.
inline constexpr double kMinShare = 0.01;
// The probability that chance alone makes a job without a late worker have one. It is shared by all
// workers of the job, and by the three tests.
inline constexpr double kFalseAlarm = 0.003;

// `step_ns` is the duration of a step. README.md describes the tests.
LateWorkers FindLate(std::span<const Excess> excess, double step_ns);

// A profile with fewer steps than FindLate needs tells who is late with less certainty, and the
// chance of an error is told beside the word "likely".
inline constexpr std::size_t kMinLikelySteps = 2;
inline constexpr double kLikelyFalseAlarm = 0.01;
// Whether most of the workers with kMinLikelySteps have fewer than kMinSteps.
bool HasFewSteps(std::span<const Excess> excess);
// `smallest_ns` of the result is 0, because nothing follows from a difference that is not found.
LateWorkers FindLikely(std::span<const Excess> excess, double step_ns);

}  // namespace strobe::report
