// The training steps that a trace tells of.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/xplane/space.h"

namespace strobe {

struct Step {
  std::string_view name{};  // Of the annotation, such as "train".
  std::int64_t number = 0;
  std::int64_t begin_ps = 0, end_ps = 0;  // From the trace's zero.
};

// Annotations of host threads that carry step_num, in the order of their times. The same number
// twice is two steps: two threads, or two loops.
absl::StatusOr<std::vector<Step>> FindSteps(const xplane::Space& space);

}  // namespace strobe
