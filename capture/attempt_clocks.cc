#include "capture/attempt_clocks.h"

#include <utility>

#include "common/base/saturated.h"

namespace strobe::capture {
namespace {

// No clock drifts this far: it was set, or the worker lies.
constexpr Nanos kMaxDrift = std::chrono::hours(1);

// For those who read the manifest: why the error is so large.
void NoteUnmeasured(v1::Report& report) {
  constexpr char kNote[] =
      "the worker's clock was not measured after the recording; the error of its offset allows for "
      "a slew meanwhile";
  report.add_notes(kNote);
  for (v1::Report& worker : *report.mutable_workers()) worker.add_notes(kNote);
}

}  // namespace

AttemptClocks::AttemptClocks(AttemptState& state, const OwnedTasks& tasks,
                             std::function<void()> changed)
    : state_(state), tasks_(tasks), changed_(std::move(changed)) {}

void AttemptClocks::Measure() {
  if (std::exchange(begun_, true)) return;
  for (std::size_t i = 0; i < state_.members.size(); ++i) {
    const Member& member = state_.members[i];
    if (!member.result.armed || !member.result.error) continue;
    ++in_flight_;
    member.worker->MeasureClock(
        kTimeout, tasks_.OnExecutor([this, i](const absl::StatusOr<ClockEstimate>& estimate) {
          OnMeasured(i, estimate);
        }));
  }
}

void AttemptClocks::OnMeasured(std::size_t index, const absl::StatusOr<ClockEstimate>& estimate) {
  --in_flight_;
  Member& member = state_.members[index];
  if (estimate.ok()) {
    // Workers tell their times on their clock as it was at the first measurement, even if somebody
    // has set it since.
    const Nanos before = member.result.wall_less_monotonic, now = estimate->wall_less_monotonic;
    const Nanos set = before == Nanos{0} || now == Nanos{0} ? Nanos{0} : now - before;
    const Nanos offset{
        AddSaturated((estimate->offset + state_.clock_steps.Since()).count(), -set.count())};
    const Nanos drift{AddSaturated(offset.count(), -member.result.offset.count())};
    if (drift > -kMaxDrift && drift < kMaxDrift)
      member.clock_after = ClockOffset{state_.At(estimate->at), offset, estimate->error};
  }
  changed_();
}

void AttemptClocks::Conclude() {
  for (Member& member : state_.members) {
    WorkerResult& result = member.result;
    if (result.report.started_ns() == 0) continue;
    const WallTime started = FromUnixNanos(result.report.started_ns()) - result.offset;
    const ClockOffset then =
        OffsetAt(started, {member.clock_at, result.offset, result.error}, member.clock_after);
    result.offset = then.offset;
    result.error = then.error;
    result.not_measured_after = result.error && !member.clock_after;
    if (result.not_measured_after) NoteUnmeasured(result.report);
  }
}

}  // namespace strobe::capture
