// A training step as all workers of a run recorded it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"

namespace strobe::viewer {

// One worker's share of a step. Times are picoseconds on the run's clock.
struct StepPart {
  std::uint32_t worker = 0;
  std::int64_t begin_ps = 0, end_ps = 0;
};

struct ComparedStep {
  std::string name{};
  std::int64_t number = 0;
  std::int64_t begin_ps = 0, end_ps = 0;  // The first begin and the last end.
  std::vector<StepPart> parts{};          // One or more.
};

struct ComparedSteps {
  std::vector<ComparedStep> all{};  // Ordered by name and number.
  std::string main_loop{};          // The name of the steps that take most of the workers' time.
};

// The steps of a run, which are read when they are first asked for.
struct LazySteps {
  Mutex mutex{};
  std::optional<ComparedSteps> steps ABSL_GUARDED_BY(mutex){};
};

}  // namespace strobe::viewer
