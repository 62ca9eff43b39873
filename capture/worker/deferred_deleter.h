// Deletes what belongs to gRPC calls on a thread of its own. A gRPC callback must not let go of the
// last reference to a channel: gRPC 1.51 then joins its callback threads from one of them, and the
// process hangs or aborts (CompletionQueue::ReleaseCallbackAlternativeCQ).
#pragma once
#include <memory>

#include "absl/base/thread_annotations.h"
#include "common/base/executor.h"
#include "common/base/mutex.h"

namespace strobe::capture {

// Safe for concurrent use. The destructor waits up to five seconds until every announced object is
// deleted. If some are left then, their bookkeeping is leaked on purpose, because they still use
// it.
class DeferredDeleter {
 public:
  DeferredDeleter() : state_(new State()) {}
  ~DeferredDeleter() {
    bool all_deleted = false;
    {
      MutexLock lock(&state_->mutex);
      all_deleted = state_->mutex.AwaitFor(
          std::chrono::seconds(5),
          [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mutex) { return state_->alive == 0; });
    }
    if (all_deleted) delete state_;
  }
  DeferredDeleter(const DeferredDeleter&) = delete;
  DeferredDeleter& operator=(const DeferredDeleter&) = delete;

  // Takes `object` into shared ownership. Any thread may drop the last reference; the object is
  // deleted on the deleter's thread.
  template <typename T>
  std::shared_ptr<T> Own(T* object) {
    Announce();
    return std::shared_ptr<T>(object, [state = state_](T* unused) { Delete(state, unused); });
  }
  // For objects that own themselves, such as gRPC reactors: each calls Announce when it is made,
  // and Delete(this) as its last act.
  void Announce() {
    MutexLock lock(&state_->mutex);
    ++state_->alive;
  }
  template <typename T>
  void Delete(T* object) {
    Delete(state_, object);
  }

 private:
  struct State {
    Mutex mutex;
    int alive ABSL_GUARDED_BY(mutex) = 0;
    ThreadExecutor executor;
  };

  template <typename T>
  static void Delete(State* state, T* object) {
    state->executor.Post([state, object] {
      delete object;
      MutexLock lock(&state->mutex);
      --state->alive;
    });
  }

  State* const state_;
};

}  // namespace strobe::capture
