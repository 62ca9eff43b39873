// Turns the joined calls of all workers into the operations of a job's steps.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collector/trace/report/merged_calls.h"
#include "collector/trace/report/operations.h"

namespace strobe::report {

struct CallKey {
  std::uint32_t communicator = 0;  // In Job::communicators.
  std::string name{};
  bool joined = true;   // False: its calls are not joined, but only take time.
  bool rooted = false;  // See OperationType.
};

struct StepOperationCounts {
  std::size_t unmatched = 0;  // Calls that have no place in the order of the others.
  // Joined calls that ended before another member began, but for those of a rooted type.
  std::size_t impossible = 0;
};

// Adds collectives and operations to the job's steps, which exist already; see DigestMerger.
void AddStepOperations(std::span<const CallList> calls, std::span<const CallKey> keys,
                       std::span<const CallOrder> orders, Job& job, StepOperationCounts& counts);

}  // namespace strobe::report
