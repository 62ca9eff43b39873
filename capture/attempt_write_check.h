// The last part of an attempt that only preflights: every worker that could record writes an object
// below the logdir with its own storage identity and deletes it again, as it would write its trace.
// It uses the calls that write and delete manifests, so that sidecars of every version know them.
// Threads: as AttemptState.
#pragma once
#include <functional>

#include "absl/status/statusor.h"
#include "capture/attempt_state.h"
#include "capture/owned_tasks.h"

namespace strobe::capture {

class AttemptWriteTest {
 public:
  // `state` and `tasks` must outlive it. `changed` is called when a worker has ended or a call to
  // one has come back, and at least once.
  AttemptWriteTest(AttemptState& state, const OwnedTasks& tasks, std::function<void()> changed);

  // Ends every member.
  void Begin();
  // While a call is under way the attempt must not end: the test's object would stay.
  bool CallsInFlight() const { return in_flight_ > 0; }

 private:
  void Write(std::size_t index);
  void OnWritten(std::size_t index, const absl::StatusOr<v1::PublishResponse>& answer);
  void OnDeleted(std::size_t index, const absl::StatusOr<v1::ReclaimResponse>& answer);
  std::string RunOf(std::size_t index) const;

  AttemptState& state_;
  const OwnedTasks& tasks_;
  const std::function<void()> changed_;
  std::size_t in_flight_ = 0;
};

}  // namespace strobe::capture
