// Destroys what belongs to gRPC calls on a thread of its own. gRPC's callbacks must not let go of
// the last channel: in 1.51 that joins the callback threads, from one of them, and the process
// hangs or aborts (CompletionQueue::ReleaseCallbackAlternativeCQ).
#pragma once
#include <memory>

#include "absl/base/thread_annotations.h"
#include "common/base/executor.h"
#include "common/base/mutex.h"

namespace strobe {

// Safe for concurrent use. Its destructor waits until everything it has taken on is gone, five
// seconds at most; what is still alive then keeps its state, which is never freed.
class Undertaker {
 public:
  Undertaker() : state_(new State()) {}
  ~Undertaker() {
    bool all_gone = false;
    {
      MutexLock lock(&state_->mutex);
      all_gone = state_->mutex.AwaitFor(
          std::chrono::seconds(5),
          [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mutex) { return state_->alive == 0; });
    }
    if (all_gone) delete state_;
  }
  Undertaker(const Undertaker&) = delete;
  Undertaker& operator=(const Undertaker&) = delete;

  // Shared ownership whose last holder may be any thread; the object is destroyed on ours.
  template <typename T>
  std::shared_ptr<T> Own(T* object) {
    Expect();
    return std::shared_ptr<T>(object, [state = state_](T* dead) { Bury(state, dead); });
  }
  // For objects that own themselves: Expect when one is made, Bury when it is done.
  void Expect() {
    MutexLock lock(&state_->mutex);
    ++state_->alive;
  }
  template <typename T>
  void Bury(T* dead) {
    Bury(state_, dead);
  }

 private:
  struct State {
    Mutex mutex;
    int alive ABSL_GUARDED_BY(mutex) = 0;
    ThreadExecutor executor;
  };

  template <typename T>
  static void Bury(State* state, T* dead) {
    state->executor.Post([state, dead] {
      delete dead;
      MutexLock lock(&state->mutex);
      --state->alive;
    });
  }

  State* const state_;
};

}  // namespace strobe
