// The first part of a capture attempt: asks every worker whether it can record, measures its clock,
// and waits for workers that may become ready by themselves.
// Threads: as AttemptState.
#pragma once
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "capture/attempt_state.h"
#include "capture/owned_tasks.h"
#include "capture/ports.h"

namespace strobe::capture {

class AttemptPreflight {
 public:
  struct Hooks {
    std::function<void()> changed;  // The progress has changed: waits_for.
    // Called once, unless the attempt is cancelled before: OK when enough workers can record, or
    // record already (AttemptState::taken_over), else why not.
    std::function<void(const absl::Status&)> done;
  };

  // `state` and `tasks` must outlive it.
  AttemptPreflight(AttemptState& state, const OwnedTasks& tasks, WorkerConnector& workers,
                   Hooks hooks);

  void Begin();
  bool IsAsking() const { return checks_in_flight_ > 0; }

 private:
  void Ask(std::size_t index);
  void OnChecked(std::size_t index, const absl::StatusOr<Preflight>& answer);
  void Settle();
  bool IsAwaited(const Member& member) const;
  bool AwaitReadiness();
  void LoseUnreachable();
  void AskWaitedForAgain();
  bool RefreshClocks();
  bool SharpenClocks();
  void OnSharpened(Member& member, const absl::StatusOr<ClockEstimate>& clock);
  void TakeClock(const ClockEstimate& clock, Member& member) const;

  AttemptState& state_;
  const OwnedTasks& tasks_;
  WorkerConnector& workers_;
  const Hooks hooks_;
  std::size_t checks_in_flight_ = 0;
  MonoTime ready_by_{};     // Workers that are not ready are waited for until then.
  bool refreshed_ = false;  // Clocks were measured again since the last wait.
  bool sharpened_ = false;  // SharpenClocks has asked for what it wants.
};

}  // namespace strobe::capture
