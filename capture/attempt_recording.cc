#include "capture/attempt_recording.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "capture/preflight_judgement.h"
#include "common/base/duration.h"
#include "common/base/strings.h"

namespace strobe::capture {
namespace {

// Whether the trace must show a device. That depends on the source which will record, and the
// source is known only once preflight has said what answers in the trainer.
bool ExpectsDevice(const Spec& spec, const Target& target, bool framework) {
  if (spec.tracers.device() == 0) return false;
  const bool by_framework =
      spec.source == v1::SOURCE_FRAMEWORK ||
      (spec.source == v1::SOURCE_AUTO && framework && target.only_container.empty());
  return by_framework ? target.planes.framework : target.planes.agent;
}

// Replaces the window by the steps. A worker that joins a capture of the previous leader gets the
// times of the other workers; its sidecar determines its own times.
void AddSteps(const StepPlan& steps, const WorkerResult& worker, v1::CapturePlan& plan) {
  constexpr Nanos kMinStepsTime = std::chrono::milliseconds(1);
  const ExpectedSteps expected =
      worker.expected_steps.value_or(ExpectedSteps{steps.begin, steps.begin + kMinStepsTime});
  plan.set_instant_ns(ToUnixNanos(expected.begin + worker.offset));
  plan.set_duration_ns(
      std::clamp<Nanos>(expected.end - expected.begin, kMinStepsTime, kMaxStepsTime).count());
  plan.set_steps(steps.count);
  plan.set_first_step(steps.first);
  plan.set_step_loop(steps.loop);
  plan.set_steps_by_ns(ToUnixNanos(steps.by + worker.offset));
}

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Nanos kMinArmTimeout = milliseconds(50);
constexpr Nanos kFirstWatchDelay = milliseconds(100), kMaxWatchDelay = seconds(1);

// The clocks of workers that have not ended.
std::vector<ClockReading> ClocksOf(const std::vector<Member>& members) {
  std::vector<ClockReading> clocks;
  for (const Member& member : members) {
    if (member.state != MemberState::kEnded) clocks.push_back(member.clock);
  }
  return clocks;
}

}  // namespace

v1::CapturePlan MakePlan(const Spec& spec, const AttemptResult& attempt, WallTime deadline,
                         const WorkerResult& worker, bool framework) {
  v1::CapturePlan plan;
  plan.set_capture_id(attempt.capture_id);
  plan.set_request(spec.request);
  plan.set_instant_ns(ToUnixNanos(attempt.plan->instant + worker.offset));
  plan.set_duration_ns(spec.duration.count());
  plan.set_guard_ns(attempt.plan->guard.count());
  plan.set_look_back_ns(spec.look_back.count());
  plan.set_max_pause_ns(spec.max_pause.value_or(Nanos{0}).count());
  plan.set_clock_offset_ns(worker.offset.count());
  plan.set_clock_error_ns(worker.error.value_or(Nanos{-1}).count());
  plan.set_wall_less_monotonic_ns(worker.wall_less_monotonic.count());
  *plan.mutable_tracers() = spec.tracers;
  plan.set_source(spec.source);
  plan.set_logdir(spec.logdir);
  plan.set_run(attempt.run);
  plan.set_worker(worker.target.file);
  plan.set_deadline_ns(ToUnixNanos(deadline + worker.offset));
  plan.set_max_bytes(spec.max_bytes);
  plan.set_abort_memory_percent(spec.abort_memory_percent);
  plan.set_abort_slowdown_percent(spec.abort_slowdown_percent);
  plan.set_expects_device(ExpectsDevice(spec, worker.target, framework));
  plan.set_container(worker.target.only_container);
  plan.set_role(worker.target.role);
  for (const std::uint32_t rank : worker.target.ranks) plan.add_ranks(rank);
  for (const std::uint32_t rank : worker.target.local_ranks) plan.add_local_ranks(rank);
  plan.set_discard_late(spec.on_late_start == OnLateStart::kDiscard);
  if (attempt.plan->steps) AddSteps(*attempt.plan->steps, worker, plan);
  return plan;
}

AttemptRecording::AttemptRecording(AttemptState& state, const OwnedTasks& tasks, Hooks hooks)
    : state_(state), tasks_(tasks), hooks_(std::move(hooks)) {}

// Arming has two phases: workers that accept start by themselves at the instant, unless they are
// called off before because too few others accepted.
void AttemptRecording::Arm() {
  const StartPlan& plan = *state_.result.plan;
  const WallTime settled = plan.instant - plan.guard - CallOffLead(ClocksOf(state_.members));
  const Nanos timeout = std::max(state_.Until(settled), kMinArmTimeout);
  for (std::size_t i = 0; i < state_.members.size(); ++i) {
    Member& member = state_.members[i];
    if (member.state != MemberState::kReady) continue;
    member.state = MemberState::kArming;
    ++arms_in_flight_;
    member.worker->Arm(
        MakePlan(state_.spec, state_.result, state_.deadline, member.result, member.framework),
        timeout, tasks_.OnExecutor([this, i](absl::StatusOr<v1::ArmResponse> answer) {
          OnArmed(i, std::move(answer));
        }));
  }
  if (arms_in_flight_ == 0) FinishArming();  // All were armed by the previous leader.
}

void AttemptRecording::OnArmed(std::size_t index, absl::StatusOr<v1::ArmResponse> answer) {
  Member& member = state_.members[index];
  --arms_in_flight_;
  const bool called_off = member.state == MemberState::kEnded;  // While its answer was on the way.
  if (!answer.ok()) {
    // It may have accepted the plan all the same, and a worker that is not counted must not record.
    TellCancel(member, "its answer arrived too late");
    if (!called_off) {
      state_.End(member, OutcomeOfFailedCall(answer.status()),
                 StrCat("arming: ", MessageOf(answer.status())));
    }
  } else if (!answer->accepted()) {
    if (!called_off) state_.End(member, static_cast<Outcome>(answer->refusal()), answer->message());
  } else {
    member.last_contact = state_.Now();
    member.result.armed = true;
    member.result.report = std::move(*answer->mutable_report());
    if (called_off)  // Again, because older sidecars forget a Cancel that overtakes its Arm.
      TellCancel(member, state_.cancel_reason);
    else
      member.state = MemberState::kArmed;
  }
  if (!state_.cancel_reason.empty()) return hooks_.changed();
  if (arms_in_flight_ == 0) FinishArming();
}

void AttemptRecording::FinishArming() {
  const std::string too_few = state_.WhyTooFew(
      [](const Member& member) { return member.result.armed; }, "could be armed in time");
  if (state_.taken_over || too_few.empty()) return hooks_.armed(absl::OkStatus());
  hooks_.armed(absl::FailedPreconditionError(too_few));
}

void AttemptRecording::WatchAll() {
  for (std::size_t i = 0; i < state_.members.size(); ++i) {
    if (state_.members[i].result.armed) Watch(i);
  }
}

void AttemptRecording::Watch(std::size_t index) {
  Member& member = state_.members[index];
  if (member.state == MemberState::kEnded) return;
  auto mailbox = std::make_shared<Mailbox>();
  const auto look = [this, index, mailbox] { OnReport(index, *mailbox); };
  const auto deliver = [tasks = tasks_, look, mailbox](v1::Report report) {
    {
      MutexLock lock(&mailbox->mutex);
      const bool posted = mailbox->newest.has_value();
      mailbox->replaced += posted ? 1 : 0;
      mailbox->newest = std::move(report);
      if (posted) return;
    }
    tasks.Post(look);
  };
  member.watch = member.worker->Watch(state_.result.capture_id, deliver,
                                      tasks_.OnExecutor([this, index](const absl::Status& status) {
                                        OnWatchEnded(index, status);
                                      }));
}

void AttemptRecording::OnReport(std::size_t index, Mailbox& mailbox) {
  v1::Report report;
  {
    MutexLock lock(&mailbox.mutex);
    report = *std::exchange(mailbox.newest, std::nullopt);
    state_.result.reports_replaced += std::exchange(mailbox.replaced, 0);
  }
  Member& member = state_.members[index];
  if (member.state == MemberState::kEnded) return;
  member.last_contact = state_.Now();
  member.failed_watches = 0;
  if (report.state() != member.result.report.state()) hooks_.moved();
  member.result.report = std::move(report);
  const v1::Report& last = member.result.report;
  if (last.state() != v1::DONE) return;
  state_.End(member, static_cast<Outcome>(last.outcome()), last.message());
  hooks_.changed();
}

void AttemptRecording::OnWatchEnded(std::size_t index, const absl::Status& status) {
  Member& member = state_.members[index];
  if (member.state == MemberState::kEnded) return;
  const WallTime now = state_.Now();
  if (absl::IsNotFound(status)) {
    state_.End(member, Outcome::kWorkerLost,
               "the sidecar was restarted and has forgotten the capture");
    return hooks_.changed();
  }
  if (absl::IsDataLoss(status)) {
    // The sidecar sent more reports than a capture can have, and would send more.
    TellCancel(member, MessageOf(status));
    state_.End(member, Outcome::kWorkerLost, MessageOf(status));
    return hooks_.changed();
  }
  if (now > std::max(member.last_contact, state_.RecordedBy()) + kLostAfter) {
    state_.End(member, Outcome::kWorkerLost,
               StrCat("the sidecar has not been reachable for ",
                      FormatDuration(now - member.last_contact), ": ", MessageOf(status)));
    return hooks_.changed();
  }
  const Nanos delay = std::min<Nanos>(
      kFirstWatchDelay * (1 << std::min(member.failed_watches++, 4)), kMaxWatchDelay);
  tasks_.PostAfter(delay, [this, index] { Watch(index); });
}

void AttemptRecording::TellCancel(Member& member, const std::string& reason) {
  v1::CancelRequest request;
  request.set_reason(reason);
  Tell(member, std::move(request));
}

void AttemptRecording::Tell(Member& member, v1::CancelRequest request) {
  ++cancels_in_flight_;
  request.set_capture_id(state_.result.capture_id);
  member.worker->Cancel(request, kCancelTimeout,
                        tasks_.OnExecutor([this](const absl::StatusOr<v1::CancelResponse>&) {
                          --cancels_in_flight_;
                          hooks_.changed();
                        }));
}

void AttemptRecording::CallOff(const std::string& reason) {
  for (Member& member : state_.members) {
    if (member.state == MemberState::kEnded) {
      // Preflight could not reach it, but the previous leader may have armed it.
      const bool may_record = member.result.outcome == Outcome::kUnreachable;
      if (may_record && member.worker != nullptr && !state_.cancel_reason.empty())
        TellCancel(member, reason);
      continue;
    }
    // Without waiting for answers that are on their way: the attempt may be dropped before they
    // come, and the previous leader may have armed a worker that preflight asks.
    if (member.state != MemberState::kReady) TellCancel(member, reason);
    state_.End(member, Outcome::kCancelled, StrCat("called off: ", reason));
  }
  hooks_.changed();
}

void AttemptRecording::Cancel(const std::string& reason) {
  for (Member& member : state_.members) {
    if (member.state != MemberState::kEnded) TellCancel(member, reason);
  }
}

void AttemptRecording::EndEarly() {
  for (Member& member : state_.members) {
    if (member.state == MemberState::kEnded) continue;
    v1::CancelRequest request;
    request.set_keep(true);
    Tell(member, std::move(request));
  }
}

void AttemptRecording::GiveUpOnStragglers() {
  for (Member& member : state_.members) {
    if (member.state == MemberState::kEnded) continue;
    TellCancel(member, "its deadline has passed");
    if (state_.result.cancelled)
      state_.End(member, Outcome::kCancelled, state_.cancel_reason);
    else
      state_.End(member, Outcome::kDeadlineExceeded, "no final report before the deadline");
  }
  hooks_.changed();
}

}  // namespace strobe::capture
