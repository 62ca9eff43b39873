// The part of an attempt that asks for evidence instead of a recording: reads it of all workers at
// once, has it judged, and lets each worker write its own files into the run, with its storage
// identity. Threads: as AttemptState.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "capture/attempt_state.h"
#include "capture/evidence_memory.h"
#include "capture/owned_tasks.h"
#include "capture/ports.h"
#include "capture/stall_report.h"

namespace strobe::capture {

class AttemptEvidence {
 public:
  // Processes take up to four seconds. A sidecar that is gone delays the verdict so long.
  static constexpr Nanos kAnswerTimeout = std::chrono::seconds(7);
  // RAS takes up to ten, if a process of the job is stopped.
  static constexpr Nanos kRasTimeout = std::chrono::seconds(12);
  // What one job's evidence may take of the memory, if there is so much. Each worker gets its
  // share.
  static constexpr std::uint64_t kMaxJobBytes = std::uint64_t{256} << 20;

  // All must outlive it; `memory` may be null.
  struct Means {
    WorkerConnector& workers;
    Executor& judging;  // Judging takes up to seconds.
    EvidenceMemory* memory = nullptr;
  };
  struct Hooks {
    std::function<void()> changed;  // A worker has ended; called at least once.
    std::function<void()> judged;   // result.stall is set.
    std::function<void()> kept;     // The workers' files are in the run, as far as that succeeded.
  };

  AttemptEvidence(AttemptState& state, const OwnedTasks& tasks, Means means, Hooks hooks);

  // Ends every member.
  void Begin();
  // Needs all members to have ended. Calls `judged` and then `kept`.
  void Judge();

 private:
  std::uint64_t TakeMemory(std::size_t workers);
  void Ask(std::size_t index, std::uint64_t bytes, bool with_ras);
  void OnAnswer(std::size_t index, absl::StatusOr<v1::ReadEvidenceResponse> answer);
  void OnJudged(StallReport report, JobEvidenceOrder& order);
  void Keep(std::size_t index);
  void OnKept(std::size_t index, std::uint64_t bytes,
              const absl::StatusOr<v1::PublishResponse>& answer);

  AttemptState& state_;
  const OwnedTasks& tasks_;
  const Means means_;
  const Hooks hooks_;
  std::shared_ptr<void> held_{};            // Its part of the memory.
  std::vector<WorkerEvidence> evidence_{};  // By member.
  std::size_t keeping_ = 0;                 // Calls that are under way.
};

}  // namespace strobe::capture
