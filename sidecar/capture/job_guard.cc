#include "sidecar/capture/job_guard.h"

#include <chrono>
#include <optional>
#include <utility>

#include "common/base/guard.h"

namespace strobe::session {
namespace {

// Programs read their memory as often.
constexpr Nanos kLookEvery = std::chrono::milliseconds(50);

}  // namespace

JobGuard::JobGuard(const Clock& clock, JobMonitor& monitor, const v1::CapturePlan& plan,
                   std::function<void(const Harm&)> on_harm)
    : clock_(clock),
      monitor_(monitor),
      on_harm_(std::move(on_harm)),
      rule_(HarmLimits{plan.abort_memory_percent(), plan.abort_slowdown_percent()}),
      thread_([this, plan] {
        // If the guard fails, the capture goes on without it.
        (void)RunGuarded("job_guard", [&] { Run(plan); });
      }) {}

void JobGuard::Recording(Nanos in) {
  MutexLock lock(&mutex_);
  rule_.Recording(clock_.MonoNow() + in);
}

void JobGuard::Collecting() {
  MutexLock lock(&mutex_);
  rule_.Collecting();
}

v1::JobEffect JobGuard::Stop() {
  stop_.Cancel();
  if (thread_.joinable()) thread_.join();
  MutexLock lock(&mutex_);
  return rule_.effect();
}

void JobGuard::Run(const v1::CapturePlan& plan) {
  monitor_.Begin(plan);
  bool told = false;
  do {
    const JobSigns signs = monitor_.Look();
    std::optional<Harm> harm;
    {
      MutexLock lock(&mutex_);
      harm = rule_.Judge(signs, clock_.MonoNow());
      // Recording ends now, so later steps are not slowed down and must not be compared.
      if (harm) rule_.Collecting();
    }
    if (harm && !std::exchange(told, true)) on_harm_(*harm);
  } while (!stop_.WaitFor(kLookEvery));
  monitor_.End();
}

}  // namespace strobe::session
