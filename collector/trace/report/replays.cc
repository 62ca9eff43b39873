#include "collector/trace/report/replays.h"

#include <algorithm>

namespace strobe::report {

Replays::Replays(const Job& job) {
  std::size_t largest = 0;
  for (const JobStep& step : job.steps) largest = std::max(largest, step.operations.size());
  changed_.resize(largest);
  ends_.resize(largest);
  for (std::size_t i = 0; i < job.steps.size(); ++i) {
    const JobStep& step = job.steps[i];
    if (step.operations.empty()) continue;
    auto graph = StepGraph::Make(step);
    if (!graph.ok()) {
      ++circles_;
      continue;
    }
    ReplayedStep replayed{
        .index = i, .graph = *std::move(graph), .durations_ns = OwnDurations(job, step)};
    replayed.time_ns = replayed.graph.Replay(replayed.durations_ns, ends_);
    steps_.push_back(std::move(replayed));
  }
}

}  // namespace strobe::report
