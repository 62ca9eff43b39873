// Ranks with equal stacks, put together.
#pragma once
#include <string>
#include <vector>

#include "collector/stall/evidence.h"

namespace strobe::stall {

struct StackGroup {
  std::vector<int> ranks{};  // A rank is there once for each of its threads with this stack.
  std::string thread{};      // "main", or the thread's name.
  std::vector<StackFrame> frames{};
  std::vector<int> keep_gil{};  // Ranks whose thread has Python's lock.
  std::vector<int> moved{};     // Ranks whose stack was another one in the second look.
};

// The stacks of the main threads, or of all. The rarest come first, because the odd one out is what
// one looks for.
std::vector<StackGroup> GroupStacks(const JobEvidence& evidence, bool all_threads);

// Text for people. `of`: how many ranks have stacks.
std::string StackGroupsText(const std::vector<StackGroup>& groups, std::size_t of);
std::string StackGroupsJson(const std::vector<StackGroup>& groups, int indent);

}  // namespace strobe::stall
