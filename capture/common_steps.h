// The training steps that all workers of a capture recorded. Pure.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "collector/trace/analysis/skew.h"
#include "common/base/clock.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::capture {

// The complete steps in one worker's trace.
struct StepsOfWorker {
  v1::RecordedSteps steps{};
  Nanos offset{};                // Worker clock minus operator clock.
  std::optional<Nanos> error{};  // Half-width of the offset's error interval; none = not measured.
};

struct CommonSteps {
  std::string loop{};
  std::int64_t first = 0, last = 0;
  // How far apart the workers began `first`. This is a property of the job: workers that wait for
  // one another begin close together, others do not. None if not all of them recorded that it
  // began.
  std::optional<analysis::Skew> spread{};
};

// None if the workers recorded steps of different loops, or no step is complete on all of them.
std::optional<CommonSteps> FindCommonSteps(std::span<const StepsOfWorker> workers);

// "step 12 of train" or "steps 12 to 15 of train".
std::string Describe(const CommonSteps& steps);

}  // namespace strobe::capture
