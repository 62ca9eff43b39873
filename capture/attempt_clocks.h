// Measures the clocks of the workers again once they have recorded. The first measurement was for
// the plan. Clocks drift, so without a second one the skew of a capture that waited long for its
// start would be known less precisely.
// Threads: as AttemptState.
#pragma once
#include <functional>

#include "absl/status/statusor.h"
#include "capture/attempt_state.h"
#include "capture/owned_tasks.h"

namespace strobe::capture {

class AttemptClocks {
 public:
  static constexpr Nanos kTimeout = std::chrono::seconds(2);  // For one worker.

  // `state` and `tasks` must outlive it. `changed` is called whenever a measurement has come back.
  AttemptClocks(AttemptState& state, const OwnedTasks& tasks, std::function<void()> changed);

  // Asks every worker that accepted a plan, the first time it is called. Workers answer while they
  // collect, so this costs a capture no time.
  void Measure();
  bool CallsInFlight() const { return in_flight_ > 0; }
  // Replaces each worker's offset by the one at the start of its recording.
  void Conclude();

 private:
  void OnMeasured(std::size_t index, const absl::StatusOr<ClockEstimate>& estimate);

  AttemptState& state_;
  const OwnedTasks& tasks_;
  const std::function<void()> changed_;
  bool begun_ = false;
  std::size_t in_flight_ = 0;
};

}  // namespace strobe::capture
