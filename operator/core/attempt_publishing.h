// The last part of a capture attempt: composes the manifest and has one worker write it into the
// run, because the operator holds no storage identity. If no trace has an event and another attempt
// follows, the worker deletes the run instead, so that nobody finds empty runs beside the good one.
// Threads: as AttemptState.
#pragma once
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "operator/core/attempt_state.h"
#include "operator/core/owned_tasks.h"

namespace strobe {

class AttemptPublishing {
 public:
  // `state` and `tasks` must outlive it. `done` is called once; result.manifest_url or
  // result.manifest_error says how it went.
  AttemptPublishing(AttemptState& state, const OwnedTasks& tasks, std::function<void()> done);

  // Needs the concluded result.
  void Begin();

 private:
  void Publish();
  void OnPublished(const absl::StatusOr<v1::PublishResponse>& answer);
  void Remove();
  Worker* NextWorker();

  AttemptState& state_;
  const OwnedTasks& tasks_;
  const std::function<void()> done_;
  v1::PublishRequest request_{};
  std::vector<std::size_t> candidates_{};  // Members that are still to be asked, the best last.
  MonoTime give_up_{};
};

}  // namespace strobe
