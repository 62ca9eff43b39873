#include "capture/capture_plan.h"

#include <algorithm>

namespace strobe::capture {
namespace {

// Whether the trace must show a device. That depends on the source which will record, and the
// source is known only once preflight has said what answers in the trainer.
bool ExpectsDevice(const CaptureSpec& spec, const Target& target, bool framework) {
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

}  // namespace

v1::CapturePlan MakePlan(const CaptureSpec& spec, const AttemptResult& attempt, WallTime deadline,
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

}  // namespace strobe::capture
