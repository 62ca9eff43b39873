#include "capture/worker/probe_slots.h"

#include <atomic>
#include <deque>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"

namespace strobe::capture {

// Turns may end after the object that gave them is gone.
struct ProbeSlots::State {
  State(Limits l, Executor& e) : limits(l), executor(&e) {}

  const Limits limits;
  Mutex mutex;
  Executor* executor ABSL_GUARDED_BY(mutex);  // Null from the destructor on.
  int running ABSL_GUARDED_BY(mutex) = 0;
  std::deque<Work> waiting ABSL_GUARDED_BY(mutex);
};

struct ProbeSlots::Waiter {
  explicit Waiter(std::shared_ptr<State> s) : state(std::move(s)) {}
  void End() {
    if (is_over.exchange(true)) return;
    {
      MutexLock lock(&state->mutex);
      --state->running;
    }
    BeginNext(state);
  }

  const std::shared_ptr<State> state;
  std::atomic<bool> is_over{false};
};

ProbeSlots::ProbeSlots(Limits limits) : state_(std::make_shared<State>(limits, executor_)) {}

ProbeSlots::~ProbeSlots() {
  std::deque<Work> dropped;
  MutexLock lock(&state_->mutex);
  state_->executor = nullptr;
  state_->waiting.swap(dropped);
}

void ProbeSlots::Take(Work work) {
  {
    MutexLock lock(&state_->mutex);
    state_->waiting.push_back(std::move(work));
  }
  BeginNext(state_);
}

void ProbeSlots::BeginNext(const std::shared_ptr<State>& state) {
  Work work;
  std::shared_ptr<Waiter> place;
  {
    MutexLock lock(&state->mutex);
    if (state->executor == nullptr || state->waiting.empty() ||
        state->running >= state->limits.at_once)
      return;
    work = std::move(state->waiting.front());
    state->waiting.pop_front();
    ++state->running;
    place = std::make_shared<Waiter>(state);
    state->executor->PostAfter(state->limits.longest, [place] { place->End(); });
  }
  work(Slot(place.get(), [place](void*) { place->End(); }));
}

}  // namespace strobe::capture
