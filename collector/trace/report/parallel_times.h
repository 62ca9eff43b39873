// In which groups of ranks the time of a job is lost, and how long the stages of its pipeline work.
// Pure.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "collector/trace/report/arrivals.h"
#include "collector/trace/report/operations.h"

namespace strobe::report {

// All communicators of one kind.
struct GroupTime {
  GroupKind kind = GroupKind::kUnknown;
  bool named = false;  // As Communicator.
  std::size_t communicators = 0;
  std::size_t calls = 0;
  double in_calls_ns = 0;  // In the mean of the steps of all workers that call.
  // How much of it was waiting for others, in the mean of the same steps. nullopt: transfers
  // between two workers do not tell it.
  std::optional<double> waited_ns{};
};
// The kind on which most time is spent first.
std::vector<GroupTime> GroupTimesOf(const Job& job, const Arrivals& arrivals);

struct StageTime {
  std::uint32_t stage = 0;
  std::size_t workers = 0;
  double own_ns = 0;  // Own time in a step, in the mean of the stage's workers.
};
// By stage; empty without a pipeline.
std::vector<StageTime> StageTimesOf(const Job& job);

}  // namespace strobe::report
