// What the parts of a capture attempt share: preflight, recording and publishing read and write it.
// Threads: all of it belongs to the attempt's executor.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capture/attempt_progress.h"
#include "capture/attempt_result.h"
#include "capture/clock_estimate.h"
#include "capture/ports.h"
#include "capture/spec.h"
#include "capture/start_plan.h"
#include "common/base/clock.h"
#include "common/base/clock_steps.h"

namespace strobe::capture {

// A member goes from the top to the bottom and may skip states. Only preflight leads back: it asks
// members again that are kReady or kEnded.
enum class MemberState {
  kChecking,  // Its answer to preflight is awaited.
  kReady,     // It can record.
  kArming,    // It was sent a plan; its answer is awaited.
  kArmed,     // It accepted the plan, from us or from the previous leader, and carries it out.
  kEnded,     // Its outcome is final.
};

// One worker that the attempt is to record.
struct Member {
  WorkerResult result{};
  MemberState state = MemberState::kChecking;
  std::shared_ptr<Worker> worker{};  // Null for a target that could not take part to begin with.
  ClockReading clock{};              // Measured by preflight.
  WallTime clock_at{};               // When that was; the earliest possible time if adopted.
  std::optional<ClockOffset> clock_after{};  // Measured after the recording.
  WorkerPace pace{};                         // The steps that it told preflight.
  bool framework = false;                    // A profiler server answers in its trainer.
  MonoTime asked_at{};                       // When preflight asked it last.
  std::shared_ptr<void> watch{};             // The stream of its reports.
  WallTime last_contact{};                   // When it answered or reported last.
  int failed_watches = 0;                    // In a row, without a report between them.
};

// A worker is lost when nobody can reach it this long after it should have recorded.
inline constexpr Nanos kLostAfter = std::chrono::seconds(10);

struct AttemptState {
  AttemptState(const Clock& clock, Spec spec, int attempt, std::vector<Target> targets);

  // All wall times of an attempt, and offsets to them, are on the operator's clock as it was when
  // the attempt began: if somebody sets that clock, what was measured or planned stays valid.
  WallTime Now() const;
  WallTime At(WallTime present) const;             // A time of the operator's clock as it is now.
  std::optional<WallTime> RequestedStart() const;  // spec.at, on the same clock.
  Nanos Until(WallTime time) const;                // 0 when it has passed.
  // When every worker should have stopped recording. Needs result.plan.
  WallTime RecordedBy() const;
  // Why the members that `can` are too few to go on with, of all or of one role: "only 1 of 4
  // workers can record, at least 2 wanted". `what` is what they can. Empty if they are enough.
  std::string WhyTooFew(const std::function<bool(const Member&)>& can, std::string_view what) const;
  std::size_t Count(MemberState wanted) const;
  // Members that accepted a plan, including those that have ended since.
  std::size_t CountArmed() const;
  bool AllEnded() const;
  void End(Member& member, Outcome outcome, std::string message);

  const Clock& clock;
  const Spec spec;
  const ClockSteps clock_steps;
  Phase phase = Phase::kPreflight;
  std::vector<Member> members{};
  AttemptResult result{};  // Its `workers` stay empty until all members have ended.
  WallTime deadline{};     // When every trace should be in the logdir; set with result.plan.
  // Workers that the previous leader armed recorded already when preflight ended. Nobody can join
  // them any more, and too few of them is no reason to end their recordings.
  bool taken_over = false;
  std::string cancel_reason{};  // Empty until somebody cancels.
  std::string waits_for{};      // See AttemptProgress.
};

// Failed workers come first, worst first, then the others from the first state to the last.
// About 64 names at most, whatever the number of workers.
std::vector<WorkersInState> StatesOf(const std::vector<Member>& members);

}  // namespace strobe::capture
