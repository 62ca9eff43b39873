// Tasks and callbacks of an object that lives on an executor and may be dropped at any time.
#pragma once
#include <functional>
#include <memory>
#include <utility>

#include "common/base/executor.h"

namespace strobe::capture {

// Every task runs on the executor, through the owner's RunTask, and holds the owner while it runs.
// A task whose owner is gone by then is dropped. So a task may capture `this` of the owner, or of
// an object that the owner holds by value.
//
// Bind is called once, before anything else; after that all methods are safe from any thread.
class OwnedTasks {
 public:
  using Work = std::function<void()>;
  class Owner {
   public:
    virtual ~Owner() = default;
    // Runs `work`, or leaves it out when the owner has nothing more to do.
    virtual void RunTask(const Work& work) = 0;
  };

  // The executor must outlive the owner.
  explicit OwnedTasks(Executor& executor) : executor_(executor) {}
  void Bind(std::weak_ptr<Owner> owner) { owner_ = std::move(owner); }

  void PostAfter(Nanos delay, Work work) const {
    executor_.PostAfter(delay, [owner = owner_, work = std::move(work)] {
      if (const std::shared_ptr<Owner> held = owner.lock()) held->RunTask(work);
    });
  }
  void Post(Work work) const { PostAfter(Nanos{0}, std::move(work)); }

  // Wraps `work` into a callback that any thread may call, also after the owner is gone: it posts
  // `work` with the callback's arguments.
  template <typename Handler>
  auto OnExecutor(Handler work) const {
    return [tasks = *this, work = std::move(work)](auto... args) {
      tasks.Post([work, ... args = std::move(args)]() mutable { work(std::move(args)...); });
    };
  }

 private:
  Executor& executor_;
  std::weak_ptr<Owner> owner_;
};

}  // namespace strobe::capture
