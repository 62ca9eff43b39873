// One attempt to record all workers: preflight, plan, two-phase arm, watch, manifest.
// Threads: all state belongs to the executor; the public methods may be called from anywhere.
// Invariant: once armed, workers go on without this object; dropping it cancels nothing, and an
// attempt that is started again finds its capture by id and goes on where it is.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/clock.h"
#include "common/base/clock_steps.h"
#include "common/base/executor.h"
#include "common/base/mutex.h"
#include "operator/core/attempt_result.h"
#include "operator/core/ports.h"

namespace strobe {

enum class Phase { kPreflight, kArming, kDelay, kRecording, kCollecting, kPublishing, kDone };
std::string_view Name(Phase phase);

struct AttemptProgress {
  Phase phase = Phase::kPreflight;
  std::size_t matched = 0, armed = 0, ended = 0;
  std::string workers_note{};  // As CaptureSpec has them.
  std::optional<std::size_t> expected_workers{};
  std::optional<StartPlan> plan{};
  std::string waits_for{};        // During preflight: who is not ready yet, and why.
  bool wants_evidence = false;    // All have ended; TellEvidence is waited for.
  std::map<Phase, Nanos> took{};  // Of the phases that have ended.
  std::shared_ptr<const AttemptResult> result{};  // Set when done.
};

class CaptureAttempt : public std::enable_shared_from_this<CaptureAttempt> {
 public:
  struct Dependencies {
    const Clock& clock;
    Executor& executor;
    WorkerConnector& workers;
    bool asks_for_evidence = false;  // Somebody answers AttemptProgress::wants_evidence.
  };

  // `changed` is called on the executor after every change of progress.
  static std::shared_ptr<CaptureAttempt> Start(Dependencies dependencies, CaptureSpec spec,
                                               int attempt, std::vector<Target> targets,
                                               std::function<void()> changed);

  AttemptProgress progress() const;
  // Ends it; workers that have not ended are cancelled. Idempotent.
  void Cancel(std::string reason);
  // What is known from elsewhere of workers that failed, by target name; it joins their messages.
  // Idempotent.
  void TellEvidence(std::map<std::string, std::string> evidence);
  // Ends the recording now and keeps what there is; cancels what does not record yet. Idempotent.
  void EndEarly();

 private:
  struct Member {
    WorkerResult result{};
    std::shared_ptr<Worker> worker{};
    ClockReading clock{};
    bool framework = false;  // A profiler server answers in its trainer.
    bool answered = false;   // To the question of the present phase.
    MonoTime asked{};        // Of its preflight.
    bool ended = false;
    std::shared_ptr<void> watch{};
    WallTime last_contact{};
    int broken = 0;  // Watches in a row that failed.
  };

  // A stream's newest report that has not been looked at: each says all that the ones before it
  // said, so that a worker that sends faster than the executor runs costs no memory.
  struct Mailbox {
    Mutex mutex;
    std::optional<v1::Report> newest ABSL_GUARDED_BY(mutex);
    std::uint64_t replaced ABSL_GUARDED_BY(mutex) = 0;
  };

  CaptureAttempt(Dependencies dependencies, CaptureSpec spec, int attempt,
                 std::vector<Target> targets, std::function<void()> changed);

  void Begin();
  void Ask(std::size_t index);
  void OnChecked(std::size_t index, absl::StatusOr<Preflight> answer);
  bool AwaitReadiness();
  bool RefreshClocks();
  void PlanAndArm();
  void OnArmed(std::size_t index, absl::StatusOr<v1::ArmResponse> answer);
  void AllArmed();
  void Watch(std::size_t index);
  void OnReport(std::size_t index, Mailbox& mailbox);
  void OnWatchEnded(std::size_t index, absl::Status status);
  void EndMember(std::size_t index, Outcome outcome, std::string message);
  void OnCancelled(std::size_t index, absl::StatusOr<v1::CancelResponse> answer);
  void TellCancel(std::size_t index, const std::string& reason);
  void Tell(std::size_t index, v1::CancelRequest request);
  void OnCancel(const std::string& reason);
  void CallOff(std::string reason);
  void MaybeConclude();
  void Conclude();
  void Publish(const v1::PublishRequest& request, std::vector<std::size_t> candidates);
  void OnPublished(const v1::PublishRequest& request, const std::vector<std::size_t>& candidates,
                   const absl::StatusOr<v1::PublishResponse>& answer);
  void Finish();
  void Enter(Phase phase);
  void GiveUpOnStragglers();
  v1::CapturePlan PlanFor(const Member& member) const;
  bool ExpectsDevice(const Member& member) const;
  Phase phase() const;
  // Why the report that a sidecar has of this capture cannot be of it; empty when it can, or when
  // it has none.
  std::string WhyNotOurs(const v1::DescribeResponse& description) const;
  bool AllAnswered() const;
  std::size_t CountArmed() const;
  WallTime Recorded() const;  // When every worker should have stopped recording; needs the plan.
  std::size_t Wanted() const;
  // Wall times of an attempt, and offsets to them, are on the clock as it was when the attempt
  // began: whoever sets ours in between moves nothing that was measured or planned before.
  WallTime Now() const;
  std::optional<WallTime> StartTime() const;  // That the request asks for.
  Nanos Until(WallTime time) const;
  // Runs a task of ours; an exception ends the attempt.
  template <typename Work>
  void Do(const Work& work);
  void Abandon(const std::string& why);
  template <typename Work>
  auto Task(Work work);
  template <typename... Args>
  auto OnExecutor(void (CaptureAttempt::*method)(std::size_t, Args...), std::size_t index);

  const Dependencies deps_;
  const CaptureSpec spec_;
  const ClockSteps clock_steps_;
  const std::function<void()> changed_;
  std::vector<Member> members_;
  AttemptResult result_;
  WallTime deadline_{};
  std::string cancel_reason_;
  bool ended_early_ = false;
  std::string waits_for_;
  MonoTime ready_by_{};
  bool refreshed_ = false;
  bool wants_evidence_ = false;
  // The end waits for both: whoever was told to start or to stop has heard it.
  std::size_t arms_in_flight_ = 0, cancels_in_flight_ = 0;
  MonoTime phase_began_{}, publish_by_{};

  mutable Mutex mutex_;
  AttemptProgress progress_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe
