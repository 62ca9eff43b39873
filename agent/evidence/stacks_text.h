// The text of a process's stacks, as collector/stall/stack_dump.h reads it. Pure.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "agent/evidence/python_stacks.h"
#include "agent/evidence/thread_facts.h"

namespace strobe::agent {

inline constexpr std::size_t kMaxStacksText = std::size_t{4} << 20;

// At most kMaxStacksText; whole frames are left out behind it. `looked_at_ns` is since 1970.
std::string StacksText(const PythonStacks& stacks, int minor, std::int64_t looked_at_ns,
                       const std::function<ThreadFacts(std::uint64_t tid)>& facts);

}  // namespace strobe::agent
