// Finds the training steps in a trace.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/xplane/space.h"

namespace strobe {

struct Step {
  std::string_view name{};                // The annotation's name, such as "train".
  std::int64_t number = 0;                // Its stat step_num.
  std::int64_t begin_ps = 0, end_ps = 0;  // From the trace's zero.
};

// Returns the annotations on host threads that have the stat step_num, ordered by begin. Two of
// them may have the same number, because several threads or loops may count steps. Names refer to
// the trace's bytes. DataLoss when the trace is damaged.
absl::StatusOr<std::vector<Step>> FindSteps(const xplane::Space& space);

}  // namespace strobe
