// How a program tells its training steps, and how a sidecar reads them. C++ standard library only.
//
// Telling a step takes a few relaxed stores and never waits. Threads may tell steps of one loop at
// the same time. A reader may meet a mark that is being replaced and then skips it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "agent/wire/cut_name.h"
#include "agent/wire/layout.h"

namespace strobe::wire {

// Never 0.
constexpr std::uint64_t LoopId(std::string_view name) {
  const std::uint64_t hash = HashOf(name.substr(0, kLoopNameBytes));
  return hash == 0 ? 1 : hash;
}

// The entry of the loop, which is taken with the loop's first step. kStepLoops if all are taken.
inline std::size_t FindLoop(FileHeader& header, std::string_view name) {
  const std::uint64_t id = LoopId(name);
  for (std::size_t i = 0; i < kStepLoops; ++i) {
    StepLoop& loop = header.step_loops[i];
    std::uint64_t present = loop.id.load(std::memory_order_relaxed);
    if (present == id) return i;
    if (present != 0 || !loop.id.compare_exchange_strong(present, id)) {
      if (present == id) return i;
      continue;
    }
    std::memcpy(loop.name, name.data(), std::min(name.size(), kLoopNameBytes));
    return i;
  }
  return kStepLoops;
}

// Returns a number for EndStep; 0 if the step is not told.
inline std::uint64_t BeginStep(FileHeader& header, std::string_view name, std::int64_t number,
                               std::uint64_t now_ns) {
  const std::size_t index = FindLoop(header, name);
  if (index == kStepLoops) return 0;
  StepLoop& loop = header.step_loops[index];
  const std::uint64_t begun = loop.begun.fetch_add(1, std::memory_order_relaxed);
  StepMark& mark = loop.marks[begun % kStepMarks];
  mark.began_ns.store(0, std::memory_order_relaxed);
  mark.ended_ns.store(0, std::memory_order_release);
  mark.number.store(number, std::memory_order_release);
  mark.began_ns.store(now_ns, std::memory_order_release);
  return 1 + index * kStepMarks + begun % kStepMarks;
}

// If kStepMarks further steps of the loop have begun since this one, its mark was used again, and
// the end is then noted for another step.
inline void EndStep(FileHeader& header, std::uint64_t step, std::uint64_t now_ns) {
  if (step == 0 || step > kStepLoops * kStepMarks) return;
  StepLoop& loop = header.step_loops[(step - 1) / kStepMarks];
  loop.marks[(step - 1) % kStepMarks].ended_ns.store(now_ns, std::memory_order_release);
}

// A copy of a mark.
struct ReportedStep {
  std::int64_t number = 0;
  std::uint64_t began_ns = 0, ended_ns = 0;  // As in StepMark.
};

// Calls `visit` for the last steps of the loop that began, oldest first, at most kStepMarks.
template <typename Visit>
void ForEachStep(const StepLoop& loop, const Visit& visit) {
  const std::uint64_t begun = loop.begun.load(std::memory_order_acquire);
  for (std::uint64_t n = begun > kStepMarks ? begun - kStepMarks : 0; n < begun; ++n) {
    const StepMark& mark = loop.marks[n % kStepMarks];
    const std::uint64_t began = mark.began_ns.load(std::memory_order_acquire);
    const ReportedStep step{mark.number.load(std::memory_order_acquire), began,
                            mark.ended_ns.load(std::memory_order_acquire)};
    if (began != 0 && mark.began_ns.load(std::memory_order_relaxed) == began) visit(step);
  }
}

}  // namespace strobe::wire
