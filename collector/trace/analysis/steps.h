// Finds the training steps in a trace.
#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/trace/xplane/space.h"

namespace strobe::analysis {

struct Step {
  std::string_view name{};                // The annotation's name, such as "train".
  std::int64_t number = 0;                // Its stat step_num.
  std::int64_t begin_ps = 0, end_ps = 0;  // From the trace's zero.
};

// Returns the annotations on host threads that have the stat step_num, ordered by begin. Two of
// them may have the same number, because several threads or loops may count steps. Names refer to
// the trace's bytes. At most `max` are returned. DataLoss when the trace is damaged.
absl::StatusOr<std::vector<Step>> FindSteps(
    const xplane::Space& space, std::size_t max = std::numeric_limits<std::size_t>::max());

// Consecutive steps of one loop.
struct StepRun {
  std::string_view name{};
  std::int64_t first = 0, last = 0;  // Numbers; all steps between them are part of the run.
  // The earliest begin of the first step, and the latest end of the last one.
  std::int64_t begin_ps = 0, end_ps = 0;
};

// The longest run of the steps with this name and numbers from `first` to `last` that all processes
// recorded: as many as recorded any one of these steps, and at least `processes`. Of equal runs,
// the earliest.
std::optional<StepRun> LongestRun(std::span<const Step> steps, std::string_view name,
                                  std::size_t processes = 0,
                                  std::int64_t first = std::numeric_limits<std::int64_t>::min(),
                                  std::int64_t last = std::numeric_limits<std::int64_t>::max());
// The name of the steps that take most of the time; empty without steps.
std::string_view MainLoop(std::span<const Step> steps);

}  // namespace strobe::analysis
