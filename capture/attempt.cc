#include "capture/attempt.h"

#include <algorithm>
#include <utility>

#include "capture/attempt_progress.h"
#include "capture/process_workers.h"
#include "common/base/guard.h"
#include "common/base/strings.h"
#include "common/protocol/outcome.h"

namespace strobe::capture {
namespace {

using std::chrono::seconds;

// How long workers may take to send their last report after they were told to stop.
constexpr Nanos kCancelGrace = seconds(5);
constexpr Nanos kEvidenceTimeout = seconds(5);
constexpr char kEndedUnrecorded[] = "ended before it recorded";
// Workers are counted by what they do at most this often: thousands report within a second.
constexpr Nanos kCountPace = std::chrono::milliseconds(500);

Nanos LongestRecorded(const std::vector<WorkerResult>& workers) {
  Nanos longest{0};
  for (const WorkerResult& worker : workers)
    longest = std::max(longest, Nanos{worker.report.plan().duration_ns()});
  return longest;
}

}  // namespace

std::shared_ptr<Attempt> Attempt::Start(Dependencies dependencies, Spec spec, int attempt,
                                        std::vector<Target> targets,
                                        std::function<void()> changed) {
  std::shared_ptr<Attempt> self(
      new Attempt(dependencies, std::move(spec), attempt, std::move(targets), std::move(changed)));
  self->tasks_.Bind(self);
  dependencies.executor.Post([self] { self->RunTask([&] { self->Begin(); }); });
  return self;
}

Attempt::Attempt(Dependencies dependencies, Spec spec, int attempt, std::vector<Target> targets,
                 std::function<void()> changed)
    : deps_(dependencies),
      changed_(std::move(changed)),
      tasks_(deps_.executor),
      state_(deps_.clock, std::move(spec), attempt, std::move(targets)),
      preflight_(state_, tasks_, deps_.workers,
                 {.changed =
                      [this] {
                        recount_ = true;
                        Enter(Phase::kPreflight);
                        if (std::exchange(end_asked_, false)) OnEndEarly();
                      },
                  .done = [this](const absl::Status& enough) { OnPreflightDone(enough); }}),
      write_test_(state_, tasks_, [this] { ConcludeOnceAllEnded(); }),
      recording_(state_, tasks_,
                 {.armed = [this](const absl::Status& enough) { OnArmed(enough); },
                  .moved = [this] { OnMoved(); },
                  .changed = [this] { ConcludeOnceAllEnded(); }}),
      clocks_(state_, tasks_, [this] { ConcludeOnceAllEnded(); }),
      stall_(state_, tasks_,
             {.workers = deps_.workers,
              .judging = deps_.judging != nullptr ? *deps_.judging : deps_.executor,
              .memory = deps_.evidence_memory},
             {.changed = [this] { ConcludeOnceAllEnded(); },
              .judged = [this] { Enter(Phase::kPublishing); },
              .kept = [this] { publishing_.Begin(); }}),
      publishing_(state_, tasks_, deps_.reporter, [this] { Finish(); }) {
  progress_.matched = state_.members.size();
  progress_.workers_note = state_.spec.workers_note;
  progress_.expected_workers = state_.spec.expected_workers;
}

AttemptProgress Attempt::progress() const {
  MutexLock lock(&mutex_);
  return progress_;
}

void Attempt::Cancel(std::string reason) {
  // Holds the attempt until the task has run: callers that cancel often drop the attempt next, and
  // the workers must hear of it all the same.
  deps_.executor.Post([self = shared_from_this(), reason = std::move(reason)] {
    self->RunTask([&] { self->OnCancel(reason); });
  });
}

void Attempt::TellEvidence(std::map<std::string, std::string> evidence) {
  tasks_.Post([this, evidence = std::move(evidence)] { OnEvidence(evidence); });
}

void Attempt::EndEarly() {
  tasks_.Post([this] { OnEndEarly(); });
}

void Attempt::RunTask(const OwnedTasks::Work& work) {
  if (state_.phase == Phase::kDone) return;
  if (const absl::Status done = RunGuarded("capture", work); !done.ok()) Abandon(MessageOf(done));
}

// After an exception the rest of the state cannot be trusted: what is known by now becomes the
// result, and armed workers are told to forget the capture.
void Attempt::Abandon(const std::string& why) {
  AttemptResult& result = state_.result;
  result.reason = "InternalError";
  result.message = StrCat("the operator failed: ", why);
  const absl::Status told = RunGuarded("capture", [&] {
    v1::CancelRequest cancel;
    cancel.set_capture_id(result.capture_id);
    cancel.set_reason(result.message);
    result.workers.clear();
    for (Member& member : state_.members) {
      const bool may_record =
          member.state == MemberState::kArmed || member.state == MemberState::kArming;
      if (may_record && member.worker != nullptr)
        member.worker->Cancel(cancel, AttemptRecording::kCancelTimeout,
                              [](absl::StatusOr<v1::CancelResponse>) {});
      if (member.state != MemberState::kEnded)
        state_.End(member, Outcome::kCancelled, result.message);
      member.watch.reset();
      member.worker.reset();
      result.workers.push_back(member.result);
    }
    SplitByProcess(result.workers);
    strobe::capture::Conclude(state_.spec, result);
  });
  if (!told.ok()) result.workers.clear();
  Enter(Phase::kDone);
}

void Attempt::Begin() {
  phase_began_ = deps_.clock.MonoNow();
  if (state_.spec.collects_evidence) return stall_.Begin();
  preflight_.Begin();
}

void Attempt::OnPreflightDone(const absl::Status& enough) {
  if (std::exchange(end_asked_, false)) {
    if (!state_.taken_over) return Cancel(kEndedUnrecorded);
    ended_early_ = true;  // The workers are told in OnArmed.
  }
  // Every worker that could record is told so, whatever becomes of the others.
  if (state_.spec.preflight_only) {
    if (enough.ok()) Plan().IgnoreError();  // The result's reason says why there is no plan.
    state_.result.plan.reset();
    return write_test_.Begin();
  }
  if (!enough.ok()) return recording_.CallOff(MessageOf(enough));
  if (!state_.result.plan) {
    if (const absl::Status planned = Plan(); !planned.ok())
      return recording_.CallOff(MessageOf(planned));
  }
  state_.deadline = state_.RecordedBy() +
                    state_.spec.collect_timeout.value_or(CollectBudget(state_.spec.duration));
  Enter(Phase::kArming);
  recording_.Arm();
}

// Sets result.plan, or result.reason and result.message if the workers' clocks or steps allow none.
absl::Status Attempt::Plan() {
  AttemptResult& result = state_.result;
  const auto refuse = [&result](std::string_view reason, const absl::Status& why) {
    result.reason = std::string(reason);
    result.message = MessageOf(why);
    return why;
  };
  std::vector<ClockReading> ready;
  for (const Member& member : state_.members) {
    if (member.state == MemberState::kReady) ready.push_back(member.clock);
  }
  Spec spec = state_.spec;
  spec.at = state_.RequestedStart();
  const absl::StatusOr<StartPlan> plan = PlanStart(spec, state_.Now(), ready);
  if (!plan.ok()) return refuse("ClockUncertain", plan.status());
  result.plan = *plan;
  if (const absl::Status planned = PlanSteps(); !planned.ok())
    return refuse(kStepOutOfReach, planned);
  return absl::OkStatus();
}

// Replaces the plan's instant by a step, if the request asks for one and the workers tell steps.
absl::Status Attempt::PlanSteps() {
  if (!state_.spec.steps) return absl::OkStatus();
  StartPlan& plan = *state_.result.plan;
  std::vector<Member*> ready;
  std::vector<WorkerPace> paces;
  for (Member& member : state_.members) {
    if (member.state != MemberState::kReady) continue;
    ready.push_back(&member);
    paces.push_back(member.pace);
  }
  const Nanos longest = std::min(state_.spec.max_steps_time.value_or(kMaxStepsTime), kMaxStepsTime);
  const absl::StatusOr<StepPlan> steps =
      PlanStep(*state_.spec.steps, state_.Now(), plan.instant, paces, longest);
  if (absl::IsNotFound(steps.status())) {
    plan.no_steps = MessageOf(steps.status());
    return absl::OkStatus();
  }
  if (!steps.ok()) return steps.status();
  for (std::size_t i = 0; i < ready.size(); ++i)
    ready[i]->result.expected_steps = steps->expected[i];
  plan.instant = steps->begin;
  plan.steps = *steps;
  return absl::OkStatus();
}

void Attempt::OnArmed(const absl::Status& enough) {
  if (!enough.ok()) return recording_.CallOff(MessageOf(enough));
  Enter(Phase::kDelay);
  recording_.WatchAll();
  const StartPlan& plan = *state_.result.plan;
  EnterAt(plan.instant - plan.guard, Phase::kRecording);
  EnterAt(state_.RecordedBy(), Phase::kCollecting);
  if (ended_early_) recording_.EndEarly();
  // The grace begins now if the deadline passed while there was no operator: the workers' last
  // reports are still to be read.
  tasks_.PostAfter(state_.Until(state_.deadline) + kCancelGrace,
                   [this] { recording_.GiveUpOnStragglers(); });
}

void Attempt::EnterAt(WallTime time, Phase phase) {
  tasks_.PostAfter(state_.Until(time), [this, phase] {
    if (state_.phase >= phase) return;
    Enter(phase);
    if (phase == Phase::kCollecting) clocks_.Measure();
  });
}

void Attempt::OnCancel(const std::string& reason) {
  if (!state_.cancel_reason.empty() || state_.phase >= Phase::kPublishing) return;
  state_.cancel_reason = reason;
  state_.result.cancelled = true;
  if (state_.phase < Phase::kDelay) return recording_.CallOff(reason);
  recording_.Cancel(reason);
  // The workers' last reports say how far they got; one that does not answer is not waited for.
  tasks_.PostAfter(kCancelGrace, [this] { recording_.GiveUpOnStragglers(); });
}

void Attempt::OnEndEarly() {
  if (ended_early_ || state_.phase >= Phase::kPublishing) return;
  // Only the workers' answers tell whether they record already for the previous leader.
  if (state_.phase == Phase::kPreflight && preflight_.IsAsking()) {
    end_asked_ = true;
    return;
  }
  const bool records = state_.phase >= Phase::kRecording;
  if (!records && !state_.taken_over) return Cancel(kEndedUnrecorded);
  ended_early_ = true;
  recording_.EndEarly();
  if (records && state_.phase < Phase::kCollecting) Enter(Phase::kCollecting);
}

void Attempt::OnMoved() {
  if (std::exchange(counts_soon_, true)) return;
  tasks_.PostAfter(kCountPace, [this] {
    counts_soon_ = false;
    recount_ = true;
    Enter(state_.phase);
  });
}

void Attempt::ConcludeOnceAllEnded() {
  if (state_.phase >= Phase::kPublishing) return;
  if (recording_.CallsInFlight() || write_test_.CallsInFlight() || !state_.AllEnded())
    return Enter(state_.phase);
  // Recordings of steps may end before their time.
  if (state_.phase >= Phase::kDelay && !state_.result.cancelled) clocks_.Measure();
  if (clocks_.CallsInFlight() && !state_.result.cancelled) return Enter(state_.phase);
  if (wants_evidence_) return;
  wants_evidence_ =
      deps_.asks_for_evidence && !state_.result.cancelled &&
      std::any_of(state_.members.begin(), state_.members.end(), [](const Member& m) {
        return !m.result.target.pod.empty() && Describe(m.result.outcome).pod_may_explain;
      });
  if (!wants_evidence_) return Conclude();
  Enter(state_.phase);
  tasks_.PostAfter(kEvidenceTimeout, [this] { OnEvidence({}); });
}

void Attempt::OnEvidence(const std::map<std::string, std::string>& evidence) {
  if (!std::exchange(wants_evidence_, false)) return;
  for (Member& member : state_.members) {
    const auto found = evidence.find(member.result.target.name);
    if (found == evidence.end() || !Describe(member.result.outcome).pod_may_explain) continue;
    std::string& message = member.result.message;
    message = StrCat(found->second, message.empty() ? "" : "; ", message);
  }
  Conclude();
}

void Attempt::Conclude() {
  AttemptResult& result = state_.result;
  clocks_.Conclude();
  for (const Member& member : state_.members) result.workers.push_back(member.result);
  const std::size_t pods = result.workers.size();
  SplitByProcess(result.workers);
  if (result.expected_workers) *result.expected_workers += result.workers.size() - pods;
  if (ended_early_ || (result.plan && result.plan->steps))
    result.duration = LongestRecorded(result.workers);
  if (result.cancelled) {
    result.reason = Name(Outcome::kCancelled);
    result.message = state_.cancel_reason;
  }
  strobe::capture::Conclude(state_.spec, result);
  if (state_.spec.preflight_only) return Finish();
  const bool judges = state_.spec.collects_evidence;
  if (judges && result.cancelled) return Finish();
  Enter(Phase::kPublishing);
  if (judges) return stall_.Judge();
  publishing_.Begin();
}

void Attempt::Finish() {
  for (Member& member : state_.members) member.worker.reset();
  Enter(Phase::kDone);
}

// Moves the attempt to `phase`, which may be the present one, and publishes its progress.
void Attempt::Enter(Phase phase) {
  const MonoTime now = deps_.clock.MonoNow();
  const bool counts = std::exchange(recount_, false) || phase != state_.phase;
  std::vector<WorkersInState> states;
  if (counts) states = StatesOf(state_.members);
  {
    MutexLock lock(&mutex_);
    if (counts) progress_.states.swap(states);
    if (phase != state_.phase)
      progress_.took[state_.phase] = now - std::exchange(phase_began_, now);
    progress_.phase = state_.phase = phase;
    progress_.armed = state_.CountArmed();
    progress_.finished = state_.Count(MemberState::kEnded);
    progress_.plan = state_.result.plan;
    progress_.waits_for = state_.waits_for;
    progress_.wants_evidence = wants_evidence_;
    if (progress_.stall == nullptr && !state_.result.stall.empty())
      progress_.stall = std::make_shared<const StallReport>(state_.result.stall);
    if (phase == Phase::kDone)
      progress_.result = std::make_shared<const AttemptResult>(state_.result);
  }
  changed_();
}

}  // namespace strobe::capture
