#include "sidecar/capture/window_recorder.h"

#include <algorithm>
#include <optional>

#include "sidecar/capture/job_guard.h"
#include "sidecar/capture/session.h"
#include "sidecar/capture/step_progress.h"
#include "sidecar/capture/trace_file.h"
#include "sidecar/capture/trace_report.h"

namespace strobe::session {
namespace {

// The shortest and the longest interval between two looks at the processes' steps.
constexpr Nanos kLookAtStepsAtMost = std::chrono::milliseconds(10),
                kLookAtStepsAtLeast = std::chrono::seconds(1);

// Reduces the plan's window to what was recorded until `ended`.
void Shorten(const ClockSteps& steps, MonoTime ended, v1::Report& report) {
  const v1::CapturePlan& plan = report.plan();
  const Nanos recorded = ended - steps.Moment(FromUnixNanos(plan.instant_ns()));
  const std::int64_t duration = std::clamp<std::int64_t>(recorded.count(), 0, plan.duration_ns());
  report.mutable_plan()->set_duration_ns(duration);
  for (v1::Report& worker : *report.mutable_workers())
    worker.mutable_plan()->set_duration_ns(duration);
}

// The source knows the clock's steps since the call of Record; the report counts from arming.
void CountStepsFromArming(Nanos set, std::vector<Recording>& recordings) {
  for (Recording& recording : recordings) {
    recording.clock_set_at_start += set;
    recording.clock_set_at_stop += set;
    for (v1::ProcessReport& process : recording.processes) MoveTimes(-set, process);
  }
}

// Notes that somebody, or the job guard, has ended the recording.
void NoteEarlyEnd(const LiveCapture& live, std::vector<Recording>& recordings, v1::Report& report) {
  if (const auto ended = live.terminated_at()) {
    for (Recording& recording : recordings) recording.ended_early = true;
    Shorten(live.steps(), *ended, report);
  }
  if (const std::optional<Harm> harm = live.harm()) {
    for (Recording& recording : recordings) {
      recording.outcome = Outcome::kAborted;
      recording.message = harm->message;
    }
  }
}

}  // namespace

void WindowRecorder::AwaitStep(Nanos ahead, const LiveCapture& live, v1::CapturePlan& plan) {
  while (!live.cancel().cancelled() && !live.terminate().cancelled()) {
    std::vector<v1::StepPace> told = source_.Steps();
    const Nanos set = live.steps().Since();
    for (v1::StepPace& pace : told) MoveTimes(-set, pace);
    const WallTime now = clock_.WallNow() - set;
    const StepProgress progress = ProgressOf(plan, told, now);
    if (progress.processes > 0) {
      plan.set_instant_ns(ToUnixNanos(progress.soonest));
      plan.set_duration_ns(
          std::min<Nanos>(progress.latest - progress.soonest, kMaxCaptureDuration).count());
    }
    const Nanos left =
        FromUnixNanos(plan.instant_ns() - plan.guard_ns()) - ahead - kStepsMayHurry - now;
    if (left <= Nanos{0} || FromUnixNanos(plan.steps_by_ns()) <= now) return;
    // Looks more often the nearer the step is. An hour ahead, the pace may be wrong by minutes.
    live.cancel().WaitFor(std::clamp<Nanos>(left / 2, kLookAtStepsAtMost, kLookAtStepsAtLeast));
  }
}

MonoTime WindowRecorder::AwaitStart(Nanos ahead, const LiveCapture& live, v1::CapturePlan& plan) {
  if (plan.steps() > 0) AwaitStep(ahead, live, plan);
  const MonoTime start = live.steps().Moment(FromUnixNanos(plan.instant_ns() - plan.guard_ns()));
  if (plan.steps() == 0) live.cancel().WaitFor(start - ahead - clock_.MonoNow());
  return start;
}

std::vector<Recording> WindowRecorder::Record(LiveCapture& live, Stopwatch& watch,
                                              const std::function<void()>& publish,
                                              v1::Report& report) {
  v1::CapturePlan& plan = *report.mutable_plan();
  std::optional<JobGuard> guard;
  if (monitor_ != nullptr) {
    AwaitStart(source_.lead() + JobGuard::kLookBefore, live, plan);
    // The monitor compares the plan's deadline with the wall clock as it is now.
    guard.emplace(clock_, *monitor_, OnClockSetBy(live.steps().Since(), plan),
                  [&](const Harm& harm) { live.Abort(harm, clock_.MonoNow()); });
  }
  const MonoTime start = AwaitStart(source_.lead(), live, plan);
  if (live.cancel().cancelled()) {
    if (guard) *report.mutable_job() = guard->Stop();
    return {};
  }

  report.set_state(v1::RECORDING);
  publish();
  watch.Lap();
  if (guard) guard->Recording(start - clock_.MonoNow());
  const Nanos set = live.steps().Since();
  const auto collecting = [&] {
    if (guard) guard->Collecting();
    report.set_record_took_ns(watch.Lap());
    report.set_state(v1::COLLECTING);
    publish();
  };
  // Passes on the reading of the clocks from arming: they may be set before the source reads them.
  v1::CapturePlan read = plan;
  read.set_wall_less_monotonic_ns(live.steps().wall_less_monotonic().count());
  std::vector<Recording> recordings =
      source_.Record(OnClockSetBy(set, read), live.cancel(), live.terminate(), collecting);
  if (report.state() == v1::COLLECTING) report.set_collect_took_ns(watch.Lap());
  if (guard) *report.mutable_job() = guard->Stop();
  CountStepsFromArming(set, recordings);
  FillFromRecordings(recordings, report);
  if (!live.cancel().cancelled()) NoteEarlyEnd(live, recordings, report);
  return recordings;
}

}  // namespace strobe::session
