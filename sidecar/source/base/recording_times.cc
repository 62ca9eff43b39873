#include "sidecar/source/base/recording_times.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "sidecar/capture/trace_report.h"

namespace strobe::source {

RecordingTimes::RecordingTimes(const Clock& clock, const v1::CapturePlan& plan)
    : clock_(clock),
      steps_(session::StepsSince(clock, plan)),
      planned_start_(FromUnixNanos(plan.instant_ns() - plan.guard_ns())),
      duration_(plan.duration_ns()),
      start_(steps_.Moment(planned_start_)),
      instant_(steps_.Moment(FromUnixNanos(plan.instant_ns()))),
      deadline_(steps_.Moment(FromUnixNanos(plan.deadline_ns()))),
      stop_(
          steps_.Moment(FromUnixNanos(plan.instant_ns() + plan.duration_ns() + plan.guard_ns()))) {}

Nanos RecordingTimes::Until(MonoTime moment) const {
  return std::max(moment - clock_.MonoNow(), Nanos{0});
}

void RecordingTimes::StopNow() { stop_ = std::min(stop_, clock_.MonoNow()); }

Nanos RecordingTimes::Recorded() const { return std::clamp(stop_ - instant_, Nanos{0}, duration_); }

void RecordingTimes::Look() {
  constexpr Nanos kNoise = std::chrono::milliseconds(1);
  const MonoTime now = clock_.MonoNow();
  const Nanos set = steps_.Since();
  const Nanos change = set - set_;
  // It is not known whether a step since the last call happened before or after the start, so both
  // values are kept; SetAtStart chooses.
  if (now >= start_ && !started_) {
    started_ = true;
    set_before_start_ = set_;
    set_after_start_ = set;
  }
  if (started_ && !stopped_ && (change > kNoise || change < -kNoise))
    set_while_recording_ += change;
  if (now >= stop_ && !stopped_) {
    stopped_ = true;
    set_at_stop_ = set;
  }
  set_ = set;
}

Nanos RecordingTimes::UntilNextLook() const {
  constexpr Nanos kEvery = std::chrono::milliseconds(50);
  return stopped_ ? kEvery : std::min(kEvery, UntilStop() + Nanos{1});
}

void RecordingTimes::Finish() {
  Look();
  if (!std::exchange(stopped_, true)) set_at_stop_ = set_;
}

Nanos RecordingTimes::SetAtStart(WallTime read) const {
  const auto off = [&](Nanos set) { return std::chrono::abs(read - set - planned_start_); };
  return off(set_before_start_) < off(set_after_start_) ? set_before_start_ : set_after_start_;
}

}  // namespace strobe::source
