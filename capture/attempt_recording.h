// The middle part of a capture attempt: sends every worker its plan, follows the workers' reports,
// and tells workers to stop.
// Threads: as AttemptState.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "capture/attempt_result.h"
#include "capture/attempt_state.h"
#include "capture/owned_tasks.h"
#include "capture/spec.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::capture {

// Writes the attempt's instant and `deadline`, both on the operator's clock, on the clock of
// `worker`. `attempt.plan` must be set, and the worker's offset measured. `framework`: a profiler
// server answers in the worker's trainer.
v1::CapturePlan MakePlan(const Spec& spec, const AttemptResult& attempt, WallTime deadline,
                         const WorkerResult& worker, bool framework);

class AttemptRecording {
 public:
  static constexpr Nanos kCancelTimeout = std::chrono::seconds(2);  // For one worker to answer.

  struct Hooks {
    // Called once, unless the attempt is cancelled before: every worker has answered its plan. OK
    // when enough of them accepted it, else why not.
    std::function<void(const absl::Status&)> armed;
    std::function<void()> moved;    // A worker has come to another state, perhaps its last.
    std::function<void()> changed;  // A worker has ended, or a call to one has come back.
  };

  // `state` and `tasks` must outlive it.
  AttemptRecording(AttemptState& state, const OwnedTasks& tasks, Hooks hooks);

  // Sends plans to all workers that are ready. Needs result.plan and the deadline.
  void Arm();
  // Follows every armed worker until it has ended.
  void WatchAll();

  // Ends all workers before they record. Those that are armed, or may be, are told to forget their
  // plan.
  void CallOff(const std::string& reason);
  // Tells all workers to stop; each ends with its last report.
  void Cancel(const std::string& reason);
  // Tells all workers to stop now and to keep what they recorded.
  void EndEarly();
  // Ends the workers that have not sent a last report in time.
  void GiveUpOnStragglers();

  // While a call is under way the attempt must not end: it would drop the connection, and the
  // worker might never hear what it was told.
  bool CallsInFlight() const { return arms_in_flight_ + cancels_in_flight_ > 0; }

 private:
  // The newest report of a stream that has not been looked at. A report says all that the ones
  // before it said, so only the newest is kept: a worker that sends faster than the executor runs
  // costs no memory.
  struct Mailbox {
    Mutex mutex;
    std::optional<v1::Report> newest ABSL_GUARDED_BY(mutex);
    std::uint64_t replaced ABSL_GUARDED_BY(mutex) = 0;
  };

  void OnArmed(std::size_t index, absl::StatusOr<v1::ArmResponse> answer);
  void FinishArming();
  void Watch(std::size_t index);
  void OnReport(std::size_t index, Mailbox& mailbox);
  void OnWatchEnded(std::size_t index, const absl::Status& status);
  void TellCancel(Member& member, const std::string& reason);
  void Tell(Member& member, v1::CancelRequest request);

  AttemptState& state_;
  const OwnedTasks& tasks_;
  const Hooks hooks_;
  std::size_t arms_in_flight_ = 0, cancels_in_flight_ = 0;
};

}  // namespace strobe::capture
