// One attempt to record all workers of a job: preflight, planning, arming, watching, publishing.
//
// Threads: all state belongs to the executor; the public methods may be called from any thread.
// Invariant: workers that are armed carry on without this object. Dropping it cancels nothing, and
// an attempt that is started again, also by another process, finds its capture by the capture's id
// and goes on from where it is.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "capture/attempt_clocks.h"
#include "capture/attempt_evidence.h"
#include "capture/attempt_preflight.h"
#include "capture/attempt_progress.h"
#include "capture/attempt_publishing.h"
#include "capture/attempt_recording.h"
#include "capture/attempt_state.h"
#include "capture/attempt_write_check.h"
#include "capture/owned_tasks.h"
#include "capture/ports.h"
#include "common/base/clock.h"
#include "common/base/executor.h"
#include "common/base/mutex.h"

namespace strobe::capture {

class Attempt : public OwnedTasks::Owner, public std::enable_shared_from_this<Attempt> {
 public:
  // All must outlive the attempt.
  struct Dependencies {
    const Clock& clock;
    Executor& executor;
    WorkerConnector& workers;
    // Whether the caller answers AttemptProgress::wants_evidence. If not, nobody is waited for.
    bool asks_for_evidence = false;
    Reporter* reporter = nullptr;               // Null: captures have no report.
    Executor* judging = nullptr;                // Judges evidence of stalls; null: `executor` does.
    EvidenceMemory* evidence_memory = nullptr;  // Null: it is not bounded.
  };

  // `attempt` counts from 1. `changed` is called on the executor after every change of progress; it
  // may call any public method.
  static std::shared_ptr<Attempt> Start(Dependencies dependencies, Spec spec, int attempt,
                                        std::vector<Target> targets, std::function<void()> changed);

  AttemptProgress progress() const;
  // Cancels the workers that have not ended, and ends the attempt. Idempotent. Takes effect even
  // when the caller drops the attempt right after.
  void Cancel(std::string reason);
  // Tells what is known from elsewhere about workers that failed, by target name; it is put before
  // their messages. Only the first call after wants_evidence was set has an effect.
  void TellEvidence(std::map<std::string, std::string> evidence);
  // Ends the recording now and keeps what was recorded; before the recording it cancels the
  // attempt. Idempotent.
  void EndEarly();

 private:
  Attempt(Dependencies dependencies, Spec spec, int attempt, std::vector<Target> targets,
          std::function<void()> changed);

  void RunTask(const OwnedTasks::Work& work) override;
  void Abandon(const std::string& why);
  void Begin();
  void OnPreflightDone(const absl::Status& enough);
  absl::Status Plan();
  absl::Status PlanSteps();
  void OnArmed(const absl::Status& enough);
  void EnterAt(WallTime time, Phase phase);
  void OnCancel(const std::string& reason);
  void OnEndEarly();
  void OnMoved();
  void ConcludeOnceAllEnded();
  void OnEvidence(const std::map<std::string, std::string>& evidence);
  void Conclude();
  void Finish();
  void Enter(Phase phase);

  const Dependencies deps_;
  const std::function<void()> changed_;
  OwnedTasks tasks_;
  AttemptState state_;
  AttemptPreflight preflight_;
  AttemptWriteTest write_test_;
  AttemptRecording recording_;
  AttemptClocks clocks_;
  AttemptEvidence stall_;
  AttemptPublishing publishing_;
  bool ended_early_ = false;
  bool end_asked_ = false;  // EndEarly was called while the answers to preflight were awaited.
  bool wants_evidence_ = false;
  bool counts_soon_ = false;  // A task will count the workers' states.
  bool recount_ = false;      // The next Enter counts them.
  MonoTime phase_began_{};

  mutable Mutex mutex_;
  AttemptProgress progress_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe::capture
