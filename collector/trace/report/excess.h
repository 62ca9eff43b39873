// How much longer each worker works in a step than the others, by their own clocks alone.
#pragma once
#include <array>
#include <cstdint>
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

}  // namespace strobe::report
