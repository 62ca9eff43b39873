// A job whose steps can be replayed with other durations than those that were recorded.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "collector/trace/report/operations.h"
#include "collector/trace/report/step_graph.h"

namespace strobe::report {

// A step as it was recorded, ready to be replayed.
struct ReplayedStep {
  std::size_t index = 0;  // In Job::steps.
  StepGraph graph{};
  std::vector<std::int64_t> durations_ns{};  // OwnDurations of the step.
  std::int64_t time_ns = 0;                  // How long the replay with them takes.
};

class Replays {
 public:
  // Replays each step of the job, which must live longer. Steps whose operations wait for each
  // other in a circle are left out; circles() tells how many.
  explicit Replays(const Job& job);

  std::span<const ReplayedStep> steps() const { return steps_; }
  std::size_t circles() const { return circles_; }

  // The time of a step in which operation i takes duration(i) ns.
  template <typename Duration>
  std::int64_t Time(const ReplayedStep& step, Duration duration) {
    const std::size_t size = step.durations_ns.size();
    for (std::size_t i = 0; i < size; ++i) changed_[i] = duration(i);
    return step.graph.Replay(std::span(changed_).first(size), ends_);
  }

 private:
  std::vector<ReplayedStep> steps_{};
  std::size_t circles_ = 0;
  std::vector<std::int64_t> changed_{}, ends_{};  // Room for the largest step.
};

}  // namespace strobe::report
