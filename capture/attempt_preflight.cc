#include "capture/attempt_preflight.h"

#include <utility>
#include <vector>

#include "capture/preflight_judgement.h"
#include "capture/process_workers.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"

namespace strobe::capture {
namespace {

using std::chrono::seconds;

// Six round trips of a second: to connect, for TLS, and for three measurements of the clock.
constexpr Nanos kCheckTimeout = seconds(8);
constexpr Nanos kAskAgain = seconds(1);
// Clocks drift by tens of microseconds a second; an offset that is older is measured again.
constexpr Nanos kFreshClock = seconds(2);
// In captures of more than kMaxSmallCapture workers, a clock whose error is larger than kSharp is
// measured once more.
constexpr std::size_t kMaxSmallCapture = 32;
constexpr Nanos kSharp = std::chrono::milliseconds(1);
constexpr Nanos kSharpenTimeout = seconds(2);
constexpr std::size_t kMaxReportedSources = 8, kMaxReportedSourceBytes = 240;

// Whether waiting may cure what keeps this worker from recording: its trainer has not started its
// profiler server yet, or another capture holds it.
bool MayBecomeReady(const Member& member) {
  return member.worker != nullptr && member.state == MemberState::kEnded &&
         Describe(member.result.outcome).waitable;
}

bool CanRecord(const Member& member) {
  return member.state == MemberState::kArmed || member.state == MemberState::kReady;
}

WorkerPace PaceOf(const std::string& worker, const v1::DescribeResponse& description,
                  Nanos offset) {
  WorkerPace pace{.worker = worker};
  for (const v1::StepPace& told : description.steps()) {
    pace.loops.push_back({.loop = told.loop(),
                          .by_framework = told.source() == v1::SOURCE_FRAMEWORK,
                          .number = told.number(),
                          .began = FromUnixNanos(told.began_ns()) - offset,
                          .period = Nanos{told.period_ns()},
                          .fastest = Nanos{told.fastest_ns()},
                          .slowest = Nanos{told.slowest_ns()}});
  }
  return pace;
}

// The sources in the trainer, human-readable: "Framework at localhost:9012", "Agent at /strobe,
// local ranks 0, 1". A number that is not told as a local rank is called a rank. Those that cannot
// record say why not.
std::vector<std::string> SourcesOf(const v1::DescribeResponse& description) {
  std::vector<std::string> told;
  for (const v1::Source& source : description.sources()) {
    if (told.size() == kMaxReportedSources) break;
    std::vector<std::string> ranks;
    for (const v1::ProcessRank& rank : source.ranks()) ranks.push_back(StrCat(rank.local_rank()));
    const bool assumed = source.ranks_size() > 0 && source.ranks(0).local_rank_assumed();
    told.push_back(CutUtf8(
        StrCat(
            source.kind() == v1::SOURCE_AGENT ? "Agent" : "Framework", " at ", source.address(),
            ranks.empty() ? "" : StrCat(assumed ? ", ranks " : ", local ranks ", Join(ranks, ", ")),
            source.ready() ? "" : StrCat(", not ready: ", source.detail())),
        kMaxReportedSourceBytes));
  }
  return told;
}

// The plan that another worker was given, as it is for all workers.
StartPlan PlanOf(const v1::CapturePlan& plan) {
  const auto ours = [&](std::int64_t ns) { return FromUnixNanos(ns - plan.clock_offset_ns()); };
  StartPlan start{.instant = ours(plan.instant_ns()), .guard = Nanos{plan.guard_ns()}};
  if (plan.steps() == 0) return start;
  start.steps = StepPlan{.loop = plan.step_loop(),
                         .first = plan.first_step(),
                         .count = plan.steps(),
                         .begin = start.instant,
                         .by = ours(plan.steps_by_ns())};
  return start;
}

// The longest time before its start at which a capture can have been planned.
Nanos LongestLead(const Spec& spec) {
  constexpr Nanos kFarthest = std::chrono::hours(1), kPlanning = seconds(10);
  return spec.at ? kFarthest : spec.delay.value_or(Nanos{0}) + kPlanning;
}

// Takes over what the previous leader told a worker that it armed.
void Adopt(const v1::Report& report, const Spec& spec, Member& member) {
  member.state = MemberState::kArmed;
  member.result.armed = true;
  member.result.report = report;
  member.result.offset = Nanos{report.plan().clock_offset_ns()};
  const std::int64_t error = report.plan().clock_error_ns();
  member.result.error = error < 0 ? std::nullopt : std::optional(Nanos{error});
  member.result.wall_less_monotonic = Nanos{report.plan().wall_less_monotonic_ns()};
  member.clock_at = PlanOf(report.plan()).instant - LongestLead(spec);
}

}  // namespace

AttemptPreflight::AttemptPreflight(AttemptState& state, const OwnedTasks& tasks,
                                   WorkerConnector& workers, Hooks hooks)
    : state_(state), tasks_(tasks), workers_(workers), hooks_(std::move(hooks)) {}

void AttemptPreflight::Begin() {
  ready_by_ = state_.clock.MonoNow();
  if (!state_.spec.preflight_only) ready_by_ += state_.spec.ready_timeout;
  for (std::size_t i = 0; i < state_.members.size(); ++i) {
    Member& member = state_.members[i];
    const Target& target = member.result.target;
    if (target.outcome) {
      state_.End(member, *target.outcome, target.message);
      continue;
    }
    member.worker = workers_.Connect(target);
    Ask(i);
  }
  if (checks_in_flight_ == 0) Settle();
}

void AttemptPreflight::Ask(std::size_t index) {
  Member& member = state_.members[index];
  member.state = MemberState::kChecking;
  member.result.outcome = Outcome::kUnknown;
  member.result.message.clear();
  member.asked_at = state_.clock.MonoNow();
  ++checks_in_flight_;
  member.worker->Check(state_.result.capture_id, kCheckTimeout,
                       tasks_.OnExecutor([this, index](const absl::StatusOr<Preflight>& answer) {
                         OnChecked(index, answer);
                       }));
}

void AttemptPreflight::OnChecked(std::size_t index, const absl::StatusOr<Preflight>& answer) {
  Member& member = state_.members[index];
  --checks_in_flight_;
  // An answer that comes after the attempt was called off finds its member ended.
  if (member.state != MemberState::kChecking) return;
  const Target& target = member.result.target;
  PreflightJudgement judgement = JudgePreflight({.spec = state_.spec,
                                                 .capture_id = state_.result.capture_id,
                                                 .run = state_.result.run,
                                                 .now = state_.Now(),
                                                 .requested_start = state_.RequestedStart()},
                                                target, answer);
  if (answer.ok()) {
    const v1::DescribeResponse& description = answer->description;
    member.last_contact = state_.Now();
    member.framework = HasFramework(description);
    if (description.sources_size() > 0) member.result.ranks = RanksOf(description);
    if (state_.spec.preflight_only) {
      member.result.sidecar = description.version();
      member.result.sources = SourcesOf(description);
    }
    member.result.offset = member.result.wall_less_monotonic = Nanos{0};
    member.result.error.reset();
    member.clock_at = state_.Now();
    member.clock = {target.name,
                    Nanos{0},
                    std::nullopt,
                    answer->round_trip,
                    Nanos{description.wake_lateness_ns()},
                    Nanos{description.capture_lateness_ns()},
                    Nanos{description.lead_ns()}};
    if (answer->clock) TakeClock(*answer->clock, member);
    member.pace = PaceOf(target.name, description, member.result.offset);
  }
  switch (judgement.kind) {
    case PreflightJudgement::Kind::kReady:
      member.state = MemberState::kReady;
      break;
    case PreflightJudgement::Kind::kAdopted:
      Adopt(answer->description.report(), state_.spec, member);
      break;
    case PreflightJudgement::Kind::kUnable:
      state_.End(member, judgement.outcome, std::move(judgement.message));
      break;
  }
  if (checks_in_flight_ == 0) Settle();
}

// Decides how to go on once every worker has answered.
void AttemptPreflight::Settle() {
  if (!state_.cancel_reason.empty()) return;
  for (const Member& member : state_.members) {
    if (member.state != MemberState::kArmed || state_.result.plan) continue;
    // The workers that are armed already cannot be given another instant.
    state_.result.plan = PlanOf(member.result.report.plan());
  }
  // Only the previous leader can have made a plan at this point. A test of preflight records
  // nothing, whatever a sidecar claims, so there is nothing to take over.
  const std::optional<StartPlan>& plan = state_.result.plan;
  state_.taken_over =
      plan && !state_.spec.preflight_only && state_.Now() >= plan->instant - plan->guard;
  const std::string too_few = state_.WhyTooFew(&CanRecord, "can record");
  if ((!too_few.empty() || state_.taken_over) && AwaitReadiness()) return;
  if (!too_few.empty() && !state_.taken_over)
    return hooks_.done(absl::FailedPreconditionError(too_few));
  if (state_.taken_over)
    LoseUnreachable();
  else if (RefreshClocks() || SharpenClocks())
    return;
  state_.waits_for.clear();
  hooks_.done(absl::OkStatus());
}

// Whether the worker is asked again. While others record already, one that cannot be reached may
// record too, and any other can no longer join them.
bool AttemptPreflight::IsAwaited(const Member& member) const {
  return MayBecomeReady(member) &&
         (!state_.taken_over || member.result.outcome == Outcome::kUnreachable);
}

// Asks the other workers again while there is time and enough of them may join those that can
// record, or may be among those that record already. Returns false otherwise.
bool AttemptPreflight::AwaitReadiness() {
  std::size_t waited = 0;
  const Member* first = nullptr;
  for (const Member& member : state_.members) {
    if (!IsAwaited(member)) continue;
    if (first == nullptr) first = &member;
    ++waited;
  }
  const auto may_join = [this](const Member& member) {
    return CanRecord(member) || IsAwaited(member);
  };
  const bool patient = state_.taken_over ? state_.Now() < state_.RecordedBy() + kLostAfter
                                         : state_.WhyTooFew(may_join, "").empty() &&
                                               state_.clock.MonoNow() < ready_by_;
  if (first == nullptr || !patient) return false;
  refreshed_ = false;
  state_.waits_for = StrCat("waits for ", waited, " of ", state_.members.size(), " workers; ",
                            first->result.target.name, ": ", Name(first->result.outcome), ": ",
                            first->result.message);
  hooks_.changed();
  tasks_.PostAfter(kAskAgain, [this] { AskWaitedForAgain(); });
  return true;
}

void AttemptPreflight::AskWaitedForAgain() {
  if (state_.phase != Phase::kPreflight || !state_.cancel_reason.empty()) return;
  for (std::size_t i = 0; i < state_.members.size(); ++i) {
    if (IsAwaited(state_.members[i])) Ask(i);
  }
}

// An operator that had seen the workers being armed would call these lost.
void AttemptPreflight::LoseUnreachable() {
  for (Member& member : state_.members) {
    if (!IsAwaited(member)) continue;
    state_.End(member, Outcome::kWorkerLost,
               StrCat("the capture went on while the operator changed, and this worker did not "
                      "answer the new one: ",
                      member.result.message));
  }
}

// After a wait, measures again the clocks of the workers that were ready from the beginning.
// Returns false if there are none to measure.
bool AttemptPreflight::RefreshClocks() {
  const MonoTime now = state_.clock.MonoNow();
  // Once per wait: a sidecar that answers slowly would else make the others' clocks old each time.
  if (state_.waits_for.empty() || std::exchange(refreshed_, true)) return false;
  bool asked = false;
  for (std::size_t i = 0; i < state_.members.size(); ++i) {
    const Member& member = state_.members[i];
    if (member.state != MemberState::kReady || member.asked_at >= now - kFreshClock) continue;
    Ask(i);
    asked = true;
  }
  return asked;
}

// Measures imprecise clocks again. Preflight asks all workers at once. With thousands of them,
// connecting takes so much of this process's time that clocks are measured badly, and starts would
// be late by that error.
bool AttemptPreflight::SharpenClocks() {
  if (state_.members.size() <= kMaxSmallCapture || state_.result.plan ||
      state_.spec.preflight_only || std::exchange(sharpened_, true))
    return false;
  for (std::size_t i = 0; i < state_.members.size(); ++i) {
    Member& member = state_.members[i];
    const std::optional<Nanos>& error = member.result.error;
    if (member.state != MemberState::kReady || !error || *error <= kSharp) continue;
    ++checks_in_flight_;
    member.asked_at = state_.clock.MonoNow();
    member.worker->MeasureClock(
        kSharpenTimeout, tasks_.OnExecutor([this, i](const absl::StatusOr<ClockEstimate>& clock) {
          OnSharpened(state_.members[i], clock);
        }));
  }
  return checks_in_flight_ > 0;
}

void AttemptPreflight::OnSharpened(Member& member, const absl::StatusOr<ClockEstimate>& clock) {
  --checks_in_flight_;
  if (member.state == MemberState::kReady && clock.ok() && clock->error < *member.result.error) {
    const Nanos before = member.result.offset;
    TakeClock(*clock, member);
    for (LoopPace& loop : member.pace.loops) loop.began -= member.result.offset - before;
  }
  if (checks_in_flight_ == 0) Settle();
}

void AttemptPreflight::TakeClock(const ClockEstimate& clock, Member& member) const {
  member.result.offset = member.clock.offset = clock.offset + state_.clock_steps.Since();
  member.result.error = member.clock.error = clock.error;
  member.result.wall_less_monotonic = clock.wall_less_monotonic;
  member.clock_at = state_.At(clock.at);
}

}  // namespace strobe::capture
