#include "sidecar/capture/step_progress.h"

#include <algorithm>

#include "common/protocol/capture_defaults.h"
#include "common/text/safe_text.h"

namespace strobe::session {
namespace {

constexpr double kMaxAheadNs = 3.6e12;  // An hour: sidecars accept no plan beyond that.

// When the step with this number begins if each step takes `factor` of the usual time. A step that
// is overdue may end at any moment.
WallTime BeginOf(std::int64_t step, const v1::StepPace& pace, double factor, WallTime now) {
  const double period = static_cast<double>(pace.period_ns()) * factor;
  const Nanos next{static_cast<std::int64_t>(std::clamp(period, 0.0, kMaxAheadNs))};
  const double more = static_cast<double>(step - pace.number() - 1) * period;
  return std::max(now, FromUnixNanos(pace.began_ns()) + next) +
         Nanos{static_cast<std::int64_t>(std::clamp(more, 0.0, kMaxAheadNs))};
}

}  // namespace

bool IsLoop(std::string_view name, std::string_view told) {
  return name == told ||
         (name.size() > kReportedLoopBytes && CutUtf8(name, kReportedLoopBytes) == told);
}

StepProgress ProgressOf(const v1::CapturePlan& plan, std::span<const v1::StepPace> told,
                        WallTime now) {
  const std::int64_t last = plan.first_step() + plan.steps() - 1;
  StepProgress progress{
      .finished = true, .soonest = WallTime::max(), .latest = now, .earliest = WallTime::max()};
  for (const v1::StepPace& pace : told) {
    if (pace.loop() != plan.step_loop()) continue;
    ++progress.processes;
    progress.begun = progress.begun || pace.number() >= plan.first_step();
    progress.finished = progress.finished &&
                        (pace.number() > last || (pace.number() == last && pace.ended_ns() != 0));
    progress.soonest = std::min(progress.soonest, BeginOf(plan.first_step(), pace, kFast, now));
    progress.earliest =
        std::min(progress.earliest, BeginOf(plan.first_step(), pace, kFastestPace, now));
    progress.latest = std::max(progress.latest, BeginOf(last + 1, pace, kSlow, now));
  }
  progress.finished = progress.finished && progress.processes > 0;
  if (progress.processes == 0 || progress.begun) progress.soonest = progress.earliest = now;
  return progress;
}

}  // namespace strobe::session
