#include "sidecar/spool/kept_traces.h"

#include <algorithm>
#include <utility>

#include "common/base/guard.h"

namespace strobe::spool {

KeptTraces::KeptTraces(const Clock& clock, Attempt attempt)
    : clock_(clock), attempt_(std::move(attempt)) {}

KeptTraces::~KeptTraces() {
  Stop();
  if (thread_.joinable()) thread_.join();
}

void KeptTraces::Start() {
  thread_ = std::thread([this] { RunThread("kept_traces", [this] { Run(); }); });
}

void KeptTraces::Add(KeptTrace trace) {
  MutexLock lock(&mutex_);  // Unlocking wakes the thread.
  ++changes_;
  const std::string id = trace.id;
  traces_[id] = std::move(trace);
}

void KeptTraces::AttemptAll(Nanos within) {
  if (within <= Nanos{0}) return;
  const MonoTime now = clock_.MonoNow();
  {
    MutexLock lock(&mutex_);
    for (auto& [id, trace] : traces_) trace.next = std::min(trace.next, now);
    ++changes_;
  }
  MutexLock lock(&mutex_);
  mutex_.AwaitFor(within, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return std::all_of(traces_.begin(), traces_.end(),
                       [&](const auto& trace) { return trace.second.next > now; });
  });
}

void KeptTraces::Stop() {
  MutexLock lock(&mutex_);
  stopped_ = true;
}

void KeptTraces::Run() {
  while (true) {
    std::optional<KeptTrace> due;
    {
      MutexLock lock(&mutex_);
      if (stopped_) return;
      const auto changed = [this, before = changes_]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stopped_ || changes_ != before;
      };
      const auto soonest = std::min_element(
          traces_.begin(), traces_.end(),
          [](const auto& a, const auto& b) { return a.second.next < b.second.next; });
      if (soonest == traces_.end()) {
        mutex_.Await(changed);
        continue;
      }
      const Nanos left = soonest->second.next - clock_.MonoNow();
      if (left > Nanos{0}) {
        mutex_.AwaitFor(left, changed);
        continue;
      }
      due = soonest->second;
    }
    const std::string id = due->id;
    std::optional<KeptTrace> again = attempt_(*std::move(due));
    MutexLock lock(&mutex_);
    if (again)
      traces_[id] = *std::move(again);
    else
      traces_.erase(id);
  }
}

}  // namespace strobe::spool
